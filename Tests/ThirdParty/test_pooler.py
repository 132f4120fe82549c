"""PgBouncer between a hub and PostgreSQL: sessions of its own are a hub's, and those of a pool of transactions are not."""

import json
import os
import pathlib
import pwd
import subprocess
import urllib.error
import urllib.request

import pytest

import cluster
from balancers import found
from device import Device
from hub import Program
from names import stream
from stage import Serving, Stage, free_port
from waiting import PATIENCE, eventually

REFUSAL = "leads through a pooler of transactions"
INSERT = "insert into care.dose_occurrence (user_id, product_id, scheduled_at) values (%s, %s, now())"

pytestmark = pytest.mark.skipif(found("pgbouncer") is None, reason="there is no PgBouncer")


class Bouncer:
    """PgBouncer before the cluster of a stage."""

    def __init__(self, stage, mode, **settings):
        self._stage, self._settings = stage, {"pool_mode": mode, **settings}
        self.port = free_port()
        self._folder = cluster.base(stage.folder)
        self._process = self._log = None

    def url(self, role):
        return f"postgresql://{role}@127.0.0.1:{self.port}/carillon"

    def _write(self):
        settings = {"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "trust",
                    "auth_file": self._folder / "users", "admin_users": "postgres", **self._settings}
        (self._folder / "users").write_text('"carillon_hub" ""\n"postgres" ""\n')
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\ncarillon = host={self._folder}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items()))

    def __enter__(self):
        self._write()
        command = [found("pgbouncer"), str(self._folder / "pgbouncer.ini")]
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            command = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--", *command]
        self._log = open(self._folder / "pgbouncer.log", "w")
        self._process = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        eventually(lambda: " process up" in self.log() or self._process.poll() is not None, "PgBouncer is up")
        assert self._process.poll() is None, self.log()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()

    def log(self):
        return (self._folder / "pgbouncer.log").read_text()

    def logins(self):
        """How often clients have come."""
        return self.log().count(" login attempt:")

    def becomes(self, mode):
        """As an operator changes its mode, with as many sessions as a hub has connections."""
        self._settings.update(pool_mode=mode, default_pool_size=20)
        self._write()
        self._process.send_signal(1)


def serving(stage, bouncer):
    hub = stage.hubs[0]
    hub.use(DATABASE_URL=bouncer.url("carillon_hub"))
    hub.start()
    return hub


def is_ready(hub):
    address = next(json.loads(line)["operations"] for line in hub.program.err.lines if '"listening"' in line)
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=PATIENCE) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        assert error.code == 503, error
        return False


def hears(stage, hub, user):
    device = Device(hub, token=stage.token(user))
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    stage.query(INSERT, [user, "pill"])
    device.wait_for_event("occurrence.created")
    device.close()


@pytest.fixture
def stage():
    with Stage(hubs=0) as made:
        made.hubs.append(Serving(made.url("carillon_hub"), {}))
        yield made


@pytest.mark.parametrize("settings", [
    {"pool_mode": "transaction", "default_pool_size": 20},
    {"pool_mode": "transaction", "default_pool_size": 1},
    {"pool_mode": "transaction", "default_pool_size": 20, "server_round_robin": 1},
    {"pool_mode": "statement", "default_pool_size": 20},
], ids=["transactions", "one-session", "in-turns", "statements"])
def test_a_pool_of_transactions_is_told_of_once_and_never_ready(stage, settings):
    mode = settings.pop("pool_mode")
    with Bouncer(stage, mode, **settings) as bouncer:
        hub = serving(stage, bouncer)
        hub.program.err.wait_for(lambda line: REFUSAL in line, "the log says what is between")
        # Each connection tries again and again.
        eventually(lambda: bouncer.logins() > 50 and not is_ready(hub), "many more tries, none of which is ready")
        complaints = [line for line in hub.program.err.lines if "PostgreSQL" in line]
        assert len(complaints) == 1 and REFUSAL in complaints[0], complaints
        assert not any("is up" in line or '"ready"' in line for line in hub.program.err.lines)

        # The operator mends it, and the hub goes on.
        bouncer.becomes("session")
        hub.program.err.wait_for(lambda line: '"ready"' in line, "the hub is ready")
        hears(stage, hub, "ada")


def test_a_pool_of_sessions_that_stay_as_they_are_is_told_of(stage):
    """They have the settings and statements of their client before."""
    with Bouncer(stage, "session", default_pool_size=20, server_reset_query="") as bouncer:
        hub = serving(stage, bouncer)
        hub.program.err.wait_for(lambda line: '"ready"' in line, "the hub is ready")
        hub.kill()
        hub.start()
        hub.program.err.wait_for(lambda line: REFUSAL in line and "server_reset_query" in line, "the log says what to set")
        assert not is_ready(hub)


@pytest.mark.parametrize("size", [15, 40])
def test_a_pool_of_sessions_works(stage, size):
    with Bouncer(stage, "session", default_pool_size=size) as bouncer:
        hub = serving(stage, bouncer)
        hub.program.err.wait_for(lambda line: '"ready"' in line, "the hub is ready")
        hub.kill()
        # The second life gets sessions of the first.
        hub.start()
        hub.program.err.wait_for(lambda line: '"ready"' in line, "the hub is ready again")
        hears(stage, hub, "ada")
        assert REFUSAL not in hub.program.err.text()
        assert not any("by polling" in line for line in hub.program.err.lines)


@pytest.mark.parametrize("arguments, role", [(["migrate"], "postgres"), (["jobs", "--once", "miss_doses"], "carillon_hub")],
                         ids=["migrate", "jobs"])
def test_a_command_refuses_it_too(stage, arguments, role):
    for mode, status in (("transaction", 1), ("session", 0)):
        with Bouncer(stage, mode) as bouncer:
            command = Program(*arguments, environment={"DATABASE_URL": bouncer.url(role)})
            assert command.wait() == status, command.err.text()
            assert (REFUSAL in command.err.text()) == (status == 1), command.err.text()
