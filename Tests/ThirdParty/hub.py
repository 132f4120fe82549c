"""A hub of our own: `carillon dev` in a folder of its own, started and stopped as an operator would."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
from urllib.parse import urlsplit

import psycopg

import cluster
import tokens
from waiting import PATIENCE, eventually

PROGRAM = os.environ.get("CARILLON", ".build/release/carillon")
#: The load tester, by default the one beside the hub.
LOADTEST = os.environ.get("LOADTEST") or str(pathlib.Path(PROGRAM).with_name("loadtest"))

APP_KEY = "carillon-key"
APP_SECRET = "carillon-secret"
ORIGIN = "https://app.example.com"


class Output:
    """Lines that a process has written, collected as they come."""

    def __init__(self, stream):
        self.lines = []
        self.is_open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream):
        for line in stream:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.is_open = False
            self._changed.notify_all()

    def wait_for(self, predicate, what, timeout=PATIENCE):
        """The first line that fits, now or later."""
        def found():
            return next((line for line in self.lines if predicate(line)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or not self.is_open, timeout)
            line = found()
        assert line is not None, f"never printed: {what}\n" + "\n".join(self.lines)
        return line

    def text(self):
        with self._changed:
            return "\n".join(self.lines)

    def ended(self):
        """Once its process has ended: all that it has written is here, unless a child of its own still holds the pipe."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_open, 2)


class Program:
    """A running `carillon`, with what it prints."""

    def __init__(self, *arguments, environment=None, before=(), **options):
        """`before`: a command that runs the program; `options` go to `Popen`."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("CARILLON") and name != "DATABASE_URL"}
        self.process = subprocess.Popen(
            [*before, PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # Several hubs run on one machine: none takes the operations port that `serve` would.
            text=True, env={**clean, "CARILLON_OPERATIONS_LISTEN": "127.0.0.1:0", **(environment or {})}, **options)
        self.out = Output(self.process.stdout)
        self.err = Output(self.process.stderr)

    @property
    def pid(self):
        return self.process.pid

    def wait(self, timeout=PATIENCE):
        """The exit status. What it has printed is all there then."""
        status = self.process.wait(timeout)
        self.out.ended()
        self.err.ended()
        return status

    def interrupt(self, timeout=60):
        """SIGINT, as Ctrl-C sends it; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"carillon was still there {timeout} s after SIGINT:\n{self.err.text()}") from None

    def stand_still(self):
        """SIGSTOP; returns when all threads stand. Until one of them has taken the signal, the others go on."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.pid}/task")

        def stand():
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())

        eventually(stand, "all threads stand still")

    def kill(self):
        """SIGKILL: a crash."""
        self.process.kill()
        self.process.wait()


class Hub:
    """`carillon dev --dir DIR --listen 127.0.0.1:0` and what clients need to know of it."""

    def __init__(self, *settings, folder=None, listen="127.0.0.1:0"):
        self._own = None if folder else tempfile.TemporaryDirectory(prefix="judge-")
        self.folder = pathlib.Path(folder or self._own.name)
        # PostgreSQL's user passes through the folder where we are root.
        self.folder.chmod(0o711)
        self.settings = settings
        self.listen = listen
        self.program = None

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Starts the hub, and returns when it says that clients may connect."""
        self.program = Program("dev", "--dir", str(self.folder), "--listen", self.listen, *self.settings)
        self.program.out.wait_for(lambda line: line.startswith("ready"), "a line that begins with ready", 120)
        return self

    def stop(self):
        return self.program.interrupt()

    def close(self):
        """Ends everything, the cluster included, and removes the folder."""
        try:
            if self.program is not None:
                self.program.interrupt()
        finally:
            cluster.stop_if_running(self.folder)
            if self._own is not None:
                self._own.cleanup()

    @property
    def pid(self):
        return self.program.pid

    @property
    def is_running(self):
        return self.program.process.poll() is None

    def record(self):
        return json.loads((self.folder / "hub.json").read_text())

    @property
    def port(self):
        return urlsplit(self.record()["url"]).port

    @property
    def secure_port(self):
        """The port of the listener with TLS."""
        return urlsplit(self.record()["secureURL"]).port

    @property
    def operations(self):
        """`http://host:port` of /livez, /readyz and /metrics."""
        return self.record()["operationsURL"]

    @property
    def database_url(self):
        return (self.folder / "database-url").read_text().strip()

    def database(self, **options):
        """A connection of the database's owner, each statement its own transaction unless said otherwise."""
        return psycopg.connect(self.database_url, autocommit=options.pop("autocommit", True), **options)

    def superuser(self):
        """A connection of the cluster's superuser."""
        return psycopg.connect(self.database_url, user="postgres", autocommit=True)

    def query(self, text, parameters=None):
        with self.database() as connection:
            cursor = connection.execute(text, parameters)
            return cursor.fetchall() if cursor.description else None

    def token(self, user, **changes):
        """A token of that user that this hub accepts."""
        return tokens.hs256(self.record()["jwtSecret"], tokens.claims(user, **changes))

    def resident_bytes(self):
        """Resident memory of the hub's process."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the hub's process is gone")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connect(self, timeout=PATIENCE):
        """A bare TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def feed_is_listening(self):
        """The process id of the server's backend that listens for this hub, or None while there is none."""
        with self.superuser() as connection:
            row = connection.execute(
                "select pid from pg_stat_activity where datname = 'carillon' and usename = 'carillon_hub'"
                " and (query ilike 'listen %' or query ilike '%pg_listening_channels%')").fetchone()
        return row[0] if row else None

    def wait_until_listening(self, other_than=None):
        def found():
            try:
                pid = self.feed_is_listening()
            except psycopg.OperationalError:
                return None
            return pid if pid != other_than else None

        return eventually(found, "the hub listens to PostgreSQL")


class Server:
    """`carillon serve`, configured by its environment alone."""

    def __init__(self, **environment):
        self.program = Program("serve", environment={"CARILLON_LISTEN": "127.0.0.1:0", **environment})

    def __enter__(self):
        self.program.err.wait_for(lambda line: self._message(line).get("message") == "listening", "listening, in the log")
        return self

    def __exit__(self, *_):
        self.program.interrupt()

    @staticmethod
    def _message(line):
        try:
            return json.loads(line)
        except ValueError:
            return {}

    def _listening(self):
        return next(record for record in map(self._message, self.program.err.text().splitlines())
                    if record.get("message") == "listening")

    @property
    def address(self):
        """The addresses of all listeners, separated by commas, as the hub prints them."""
        return self._listening()["address"]

    @property
    def port(self):
        """The port of the only listener."""
        return int(self.address.rpartition(":")[2])

    @property
    def operations(self):
        """`http://host:port` of /livez, /readyz and /metrics."""
        return "http://" + self._listening()["operations"]
