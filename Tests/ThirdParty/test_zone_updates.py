"""Another time zone database: doses ahead move with it, and nothing else. PostgreSQL runs twice over one data folder; its
zones are a copy, in a mount namespace of its own. Needs root, as containers have it, and zic."""

import contextlib
import datetime
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import zoneinfo

import psycopg
import pytest

from waiting import eventually

ZONES = "/usr/share/zoneinfo"
SQL = pathlib.Path(__file__).parents[2] / "sql"
#: From this spring on, Dublin is to stay an hour ahead of UTC all year, and two hours ahead in summer.
RULES = """
Rule Novel 2026 max - Mar lastSun 1:00u 1:00 S
Rule Novel 2026 max - Oct lastSun 1:00u 0 -
Zone Europe/Dublin 0:00 - GMT 2026 Mar 29 1:00u
                   1:00 Novel C%sT
"""
NOW = datetime.datetime(2026, 3, 20, 12, tzinfo=datetime.timezone.utc)


def can_mount():
    probe = ["unshare", "--mount", "--propagation", "private", "mount", "--bind", "/tmp", ZONES]
    return os.geteuid() == 0 and shutil.which("zic") and shutil.which("unshare") \
        and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="mounting needs root, zones need zic")


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.zones = folder / "zoneinfo"
        self.programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        user = pwd.getpwnam("postgres")
        self.drop = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        os.chmod(folder, 0o755)
        (folder / "run").mkdir()
        os.chown(folder / "run", user.pw_uid, user.pw_gid)
        shutil.copytree(ZONES, self.zones, symlinks=True)
        self.call([*self.drop, self.programs / "initdb", "-D", folder / "run/data", "-U", "postgres", "-A", "trust",
                   "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
        self.at = f"host={folder / 'run'} user=postgres dbname=postgres"

    def call(self, command):
        subprocess.run([str(word) for word in command], check=True, cwd="/", stdout=subprocess.DEVNULL)

    @contextlib.contextmanager
    def running(self):
        """The server, which reads its zones from the copy, and a connection."""
        run = self.folder / "run"
        script = f'mount --bind "$1" {ZONES} && shift && exec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "zones", self.zones, *self.drop,
                   self.programs / "postgres", "-D", run / "data", "-c", "listen_addresses=", "-c", "fsync=off",
                   "-c", f"unix_socket_directories={run}"]
        with open(self.folder / "log", "a") as log:
            server = subprocess.Popen([str(word) for word in command], cwd="/", stdout=log, stderr=log)
        try:
            eventually(self.answers, "PostgreSQL starts")
            with psycopg.connect(self.at, autocommit=True) as connection:
                yield connection
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()

    def answers(self):
        try:
            psycopg.connect(self.at).close()
            return True
        except psycopg.OperationalError:
            return False


@pytest.fixture
def server():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="carillon-zones."))
    yield Server(folder)
    shutil.rmtree(folder)


def set_clock(connection, at):
    connection.execute("create or replace function sync.clock() returns timestamptz language sql volatile as"
                       f" $$ select '{at.isoformat()}'::timestamptz $$")


def doses(connection):
    """(id, local day, instant, status, revision) of each, in their order."""
    return connection.execute("select id, local_date, scheduled_at, status, rev from care.dose_occurrence"
                              " where schedule_id = 's' order by local_date").fetchall()


def job(connection):
    """Runs the planner's job until nothing is left; how much it wrote."""
    total = 0
    while True:
        done, more = connection.execute("select done, more from sync.job('plan_doses', 100, null)").fetchone()
        total += done
        if not more:
            return total


def test_doses_ahead_follow_another_database(server):
    wall = datetime.time(9)
    with server.running() as connection:
        server.call(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", server.at, "-f", SQL / "roles.sql"])
        server.call([SQL / "tests/install", server.at])
        set_clock(connection, NOW - datetime.timedelta(days=1))
        connection.execute("insert into care.product (id, name) values ('p', 'Magnesium')")
        connection.execute("insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode, starts_on)"
                           " values ('s', 'u', 'p', '09:00', 'Europe/Dublin', 'fixed', '2026-03-18')")
        connection.execute("update care.dose_occurrence set status = 'taken', taken_at = sync.clock()"
                           " where local_date = '2026-03-30'")
        set_clock(connection, NOW)
        assert job(connection) == 1, "a new day"
        before = doses(connection)
        old = zoneinfo.ZoneInfo("Europe/Dublin")
        assert [at for _, _, at, _, _ in before] == [
            datetime.datetime.combine(day, wall, old) for _, day, _, _, _ in before]

    source = server.folder / "rules"
    source.write_text(RULES)
    (server.zones / "Europe/Dublin").unlink()
    server.call(["zic", "-d", server.zones, source])
    with open(server.zones / "Europe/Dublin", "rb") as compiled:
        new = zoneinfo.ZoneInfo.from_file(compiled)

    with server.running() as connection:
        job(connection)
        after = doses(connection)
        assert [dose[:2] for dose in after] == [dose[:2] for dose in before], "the same ids, on the same days"
        moved = 0
        for (_, day, was, status, rev), (_, _, now, status_now, rev_now) in zip(before, after):
            stays = status == "taken" or was <= NOW
            assert status_now == status
            assert now == (was if stays else datetime.datetime.combine(day, wall, new)), day
            assert rev_now == rev + (now != was), day
            moved += now != was
        assert moved == sum(1 for _, day, *_ in before if day >= datetime.date(2026, 3, 29)) - 1 > 3
        assert job(connection) == 0, "once"
