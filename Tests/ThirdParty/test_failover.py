"""A failover that loses commits: numbers that devices have seen are given again, and every device is told so."""

import os
import pathlib
import pwd
import subprocess
import tempfile
from urllib.parse import quote

import psycopg

import cluster
from device import Device
from names import stream
from stage import Stage
from waiting import eventually

INSERT = "insert into care.dose_occurrence (user_id, product_id, scheduled_at) values (%s, %s, now())"


class Standby:
    """A copy of a stage's cluster in a folder of its own, which follows it without being waited for."""

    def __init__(self, stage, folder):
        self.stage = stage
        self.folder = folder

    def make(self):
        self.folder.chmod(0o711)
        folder = cluster.base(self.folder)
        folder.mkdir()
        source = cluster.base(self.stage.folder)
        programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        command = [programs / "pg_basebackup", "-h", source, "-U", "postgres", "-D", folder / "data", "-R", "-c", "fast"]
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            command = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--",
                       *command]
        subprocess.run(command, check=True, cwd="/", stdin=subprocess.DEVNULL)
        with open(cluster.data(self.folder) / "postgresql.conf", "a") as configuration:
            configuration.write(f"\nunix_socket_directories = '{folder}'\n")

    def connect(self):
        return psycopg.connect(f"postgresql://postgres@/carillon?host={quote(str(cluster.base(self.folder)), safe='')}",
                               autocommit=True)

    def has(self, product):
        with self.connect() as connection:
            return connection.execute(
                "select exists (select from care.dose_occurrence where product_id = %s)", [product]).fetchone()[0]

    def is_primary(self):
        with self.connect() as connection:
            return not connection.execute("select pg_is_in_recovery()").fetchone()[0]


def joined(stage, user):
    device = Device(stage.hubs[0], token=stage.token(user))
    device.subscribe(stream(user))
    return device, device.subscribed(stream(user)).data["sync"]


def told(device):
    return device.wait_for_event("sync:resumed").data["channels"]


def hears(device, user, product):
    """The event of a dose; its offset."""
    return device.wait_for(
        lambda frame: frame.channel == stream(user) and frame.event == "occurrence.created"
        and frame.data["occurrence"]["productId"] == product, product).data["_sync"]["o"]


def test_offsets_of_another_timeline_are_another_epoch():
    with tempfile.TemporaryDirectory(prefix="judge-") as folder, Stage() as stage:
        standby = Standby(stage, pathlib.Path(folder))
        try:
            hosts = quote(f"{cluster.base(stage.folder)},{cluster.base(standby.folder)}", safe="")
            hub = stage.hubs[0]
            hub.kill()
            hub.use(DATABASE_URL=f"postgresql://carillon_hub@/carillon?host={hosts}&target_session_attrs=read-write")
            hub.start()
            standby.make()
            cluster.start(standby.folder)
            device, before = joined(stage, "ada")
            stage.query(INSERT, ["ada", "both"])
            assert hears(device, "ada", "both") == before["offset"] + 1
            eventually(lambda: standby.has("both"), "the standby follows")

            # What it does not get, and devices do.
            cluster.crash(standby.folder)
            stage.query(INSERT, ["ada", "lost"])
            offset = hears(device, "ada", "lost")
            stage.crash_database()
            cluster.start(standby.folder)
            with standby.connect() as connection:
                connection.execute("select pg_promote()")
            eventually(standby.is_primary, "the standby is the primary")
            with standby.connect() as connection:
                connection.execute(INSERT, ["ada", "instead"])

            answer = told(device)[stream("ada")]
            assert answer["recovered"] is False and answer["reason"] == "stream_reset"
            assert answer["epoch"] != before["epoch"]
            # The hub may have looked where the stream stands before that dose was there: it is told of then.
            if answer["offset"] == before["offset"] + 2:
                hears(device, "ada", "instead")
            late, now = joined(stage, "ada")
            late.send("sync:resume", {"v": 1, "channels": {stream("ada"): {**before, "offset": offset}}})
            assert told(late)[stream("ada")]["reason"] == "stream_reset"
            with standby.connect() as connection:
                connection.execute(INSERT, ["ada", "later"])
            assert hears(device, "ada", "later") == hears(late, "ada", "later") == now["offset"] + 1
            device.close()
            late.close()
        finally:
            cluster.stop_if_running(standby.folder)
