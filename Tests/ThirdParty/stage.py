"""A stage for storms: a PostgreSQL cluster that syncs to disk, and hubs on ports that stay the same."""

import fcntl
import json
import os
import pathlib
import pwd
import random
import socket
import subprocess
import tempfile
from urllib.parse import quote

import psycopg

import cluster
import tokens
from hub import APP_KEY, APP_SECRET, Program
from waiting import PATIENCE

JWT_SECRET = "a-secret-for-the-tokens-of-storms-of-32-bytes"

#: fsync and synchronous_commit stay on: an immediate stop must not lose what was answered.
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 150
shared_buffers = 64MB
timezone = 'UTC'
jit = off
# A commit that does not wait for the disk shall be found out.
wal_writer_delay = 10s
logging_collector = off
"""


def free_port():
    """Below the ports that the kernel gives away: between two lives of a hub nobody else may get it."""
    while True:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def passing(sockets):
    """How `Program` gives sockets to a hub, from descriptor 3 on, as systemd does; its environment says how many."""
    given = [made.fileno() for made in sockets]

    def arrange():
        # Not over one that is still to be given.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in given]
        for index, fd in enumerate(high):
            os.dup2(fd, 3 + index)

    return {"before": ("/bin/sh", "-c", f'LISTEN_FDS={len(given)} LISTEN_PID=$$ exec "$0" "$@"'),
            "pass_fds": range(3, 3 + len(given)), "preexec_fn": arrange}


class Serving:
    """`carillon serve` on one port, from life to life."""

    def __init__(self, database_url, settings):
        self.port = free_port()
        self.program = None
        #: A listening socket that outlives the hub, as systemd gives it.
        self.socket = None
        self._environment = {
            "CARILLON_LISTEN": f"127.0.0.1:{self.port}", "CARILLON_JWT_SECRET": JWT_SECRET,
            "CARILLON_APPS": json.dumps([{"id": "1", "key": APP_KEY, "secret": APP_SECRET}]),
            "DATABASE_URL": database_url, "CARILLON_LOG_FORMAT": "json", **settings}

    def use(self, **settings):
        """Variables of the lives to come."""
        self._environment.update(settings)

    def start(self, failpoint=None):
        """Returns when clients may connect. `failpoint`: where it shall die, as `after-commit:3`."""
        environment = {"CARILLON_FAILPOINT": failpoint} if failpoint else {}
        launch = passing([self.socket]) if self.socket else {}
        self.program = Program("serve", environment={**self._environment, **environment}, **launch)
        self.program.err.wait_for(lambda line: '"listening"' in line, "listening, in the log")

    def follow(self):
        """Another hub takes over; returns when the old one has ended."""
        old, new = self.program, Program("serve", "--take-over", environment=self._environment)
        new.err.wait_for(lambda line: '"took over' in line, "took over")
        self.program = new
        assert old.wait() == 0, old.err.text()[-4000:]

    def knows_failpoints(self):
        """Whether this is a debug build: others refuse the variable."""
        return Program("check-config", environment={
            **self._environment, "CARILLON_FAILPOINT": "after-commit:1"}).wait(PATIENCE) == 0

    def kill(self):
        self.program.kill()

    def end(self):
        """SIGTERM, as a service manager sends it; returns when the hub has ended, after its pause."""
        self.program.process.terminate()
        assert self.program.wait() == 0, self.program.err.text()[-4000:]

    def stop(self):
        if self.program is not None:
            self.program.interrupt()

    @property
    def is_running(self):
        return self.program.process.poll() is None


class Stage:
    """The cluster and the hubs. All may be killed and started at any time; callers do so one after the other."""

    def __init__(self, hubs=1, settings=None):
        """`settings`: variables of the hubs' environment."""
        self._own = tempfile.TemporaryDirectory(prefix="judge-")
        self.folder = pathlib.Path(self._own.name)
        self.hubs = [Serving(self.url("carillon_hub"), settings or {}) for _ in range(hubs)]

    def __enter__(self):
        try:
            self._make_cluster()
            cluster.start(self.folder)
            with self.superuser("postgres") as connection:
                connection.execute("create database carillon")
            migration = Program("migrate", environment={"DATABASE_URL": self.url("postgres")})
            assert migration.wait(PATIENCE) == 0, migration.err.text()
            for hub in self.hubs:
                hub.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            for hub in self.hubs:
                hub.stop()
        finally:
            cluster.stop_if_running(self.folder)
            self._own.cleanup()

    # The cluster.

    def _make_cluster(self):
        # PostgreSQL's user passes through the folder where we are root.
        self.folder.chmod(0o711)
        folder = cluster.base(self.folder)
        folder.mkdir()
        programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        command = [programs / "initdb", "-D", cluster.data(self.folder), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                   "--locale=C.UTF-8", "--no-sync"]
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            command = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--",
                       *command]
        subprocess.run(command, check=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(cluster.data(self.folder) / "postgresql.conf", "a") as configuration:
            configuration.write(SETTINGS.format(folder=folder))

    def url(self, role, database="carillon"):
        return f"postgresql://{role}@/{database}?host={quote(str(cluster.base(self.folder)), safe='')}"

    def superuser(self, database="carillon"):
        return psycopg.connect(self.url("postgres", database), autocommit=True)

    def database(self, **options):
        """A connection of the database's owner, each statement its own transaction unless said otherwise."""
        return psycopg.connect(self.url("carillon_owner"), autocommit=options.pop("autocommit", True), **options)

    def query(self, text, parameters=None):
        with self.database() as connection:
            cursor = connection.execute(text, parameters)
            return cursor.fetchall() if cursor.description else None

    def crash_database(self):
        cluster.crash(self.folder)

    def start_database(self):
        cluster.start(self.folder)

    def token(self, user, lifetime=24 * 3600):
        return tokens.hs256(JWT_SECRET, tokens.claims(user, lifetime=lifetime))
