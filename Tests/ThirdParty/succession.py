"""Hubs that follow one another on one host: their sockets, their clients, and hands that play one of the hubs."""

import array
import contextlib
import json
import os
import pathlib
import select
import socket
import ssl
import threading
import urllib.error
import urllib.request

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect, unix_connect

from certificates import Certificate
from hub import APP_KEY, APP_SECRET, Program
from stage import free_port, passing
from waiting import PATIENCE, eventually

WAYS = ["clear", "secure", "unix"]
PATH = f"/app/{APP_KEY}?protocol=7"


class SharedSocket(ssl.SSLSocket):
    """A TLS socket for two threads: websockets reads in a thread of its own.

    Python's own is not for that. When one thread writes while another reads the server's session tickets, what is
    written may never leave: 33 of 7,645 connections to a hub, and 10 of 1,476 to a server that is Python's own.
    """

    def __new__(cls, *arguments, **options):
        made = super().__new__(cls, *arguments, **options)
        made._turn = threading.Lock()
        return made

    def recv(self, size=1024, flags=0):
        while True:
            with self._turn:
                self.setblocking(False)
                try:
                    return super().recv(size, flags)
                except (ssl.SSLWantReadError, BlockingIOError):
                    pass
                finally:
                    self.setblocking(True)
            # Outside the turn, so that the other thread may write meanwhile.
            waiting = select.poll()
            waiting.register(self, select.POLLIN)
            waiting.poll()

    def sendall(self, data, flags=0):
        with self._turn:
            return super().sendall(data, flags)


class Site:
    """Where hubs listen, one after the other: in the clear, by TLS, and at a unix-domain socket."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.clear, self.secure, self.operations = free_port(), free_port(), free_port()
        self.unix, self.control = folder / "hub.sock", folder / "control.sock"
        self.pair = Certificate(folder, "localhost")
        self.context = ssl.create_default_context()
        self.context.sslsocket_class = SharedSocket
        self.context.load_verify_locations(self.pair.certificate)
        self.programs = []
        self._clients = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        self._clients.close()

    @property
    def environment(self):
        return {
            "CARILLON_LISTEN": f"127.0.0.1:{self.clear},tls:127.0.0.1:{self.secure},unix:{self.unix}",
            "CARILLON_TLS_CERTIFICATE_FILES": str(self.pair.certificate), "CARILLON_TLS_KEY_FILES": str(self.pair.key),
            "CARILLON_OPERATIONS_LISTEN": f"127.0.0.1:{self.operations}", "CARILLON_CONTROL_SOCKET": str(self.control),
            "CARILLON_APPS": json.dumps([{"id": "1", "key": APP_KEY, "secret": APP_SECRET}]),
            "CARILLON_LOG_FORMAT": "json"}

    def start(self, *arguments, until='"ready"', before=(), options=None, **environment):
        """A hub; returns when its log says `until`, or at once for None."""
        program = Program("serve", *arguments, environment={**self.environment, **environment}, before=before,
                          **(options or {}))
        self.programs.append(program)
        if until:
            says(program, until)
        return program

    def successor(self, until='"took over', **environment):
        return self.start("--take-over", until=until, **environment)

    def client(self, way="clear"):
        """A greeted WebSocket."""
        options = {"open_timeout": PATIENCE, "ping_interval": None, "close_timeout": 2}
        if way == "unix":
            opening = unix_connect(str(self.unix), uri=f"ws://hub{PATH}", **options)
        elif way == "secure":
            opening = connect(f"wss://localhost:{self.secure}{PATH}", ssl=self.context, proxy=None, **options)
        else:
            opening = connect(f"ws://127.0.0.1:{self.clear}{PATH}", proxy=None, **options)
        made = self.enter(opening)
        assert json.loads(made.recv(PATIENCE))["event"] == "pusher:connection_established"
        return made

    def enter(self, made):
        """It is closed with the site."""
        return self._clients.enter_context(made)

    def visit(self, way):
        """A connection on which nothing is said."""
        made = self.enter(socket.socket(socket.AF_UNIX if way == "unix" else socket.AF_INET))
        made.settimeout(PATIENCE)
        made.connect(str(self.unix) if way == "unix" else ("127.0.0.1", self.secure if way == "secure" else self.clear))
        return made

    def serves(self):
        """Every listener has somebody who answers."""
        for way in ("clear", "secure", "unix"):
            made = self.client(way)
            assert lives(made), way
            made.close()

    def status(self, page="readyz"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.operations}/{page}", timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as answer:
            return answer.code

    def command(self, *arguments, **options):
        """`carillon drain` and what it says."""
        return Program("drain", *arguments, environment={"CARILLON_CONTROL_SOCKET": str(self.control)}, **options)


def says(program, text):
    return program.err.wait_for(lambda line: text in line, text)


def lives(client):
    try:
        client.send('{"event":"pusher:ping","data":{}}')
        return json.loads(client.recv(PATIENCE))["event"] == "pusher:pong"
    except ConnectionClosed:
        return False


def ends(connection):
    """Whether the other end closes it, without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def close_code(client):
    """The code that the hub closes with."""
    try:
        while True:
            client.recv(PATIENCE)
    except ConnectionClosed:
        return client.protocol.close_code


class Visitor:
    """Somebody who comes again and again, to a port of this host, and notes whether nobody was there."""

    def __init__(self, port, path):
        self.visits, self.failures = 0, []
        self._port, self._path, self._goes_on = port, path, True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._goes_on = False
        self._thread.join(PATIENCE)

    def _run(self):
        while self._goes_on:
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE) as visit:
                    visit.sendall(f"GET {self._path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
                    answer = visit.makefile("rb").read()
                assert answer.startswith(b"HTTP/1.1 "), answer
                self.visits += 1
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))

    def has_come(self, more=10):
        """So often again."""
        goal = self.visits + more
        eventually(lambda: self.visits >= goal or self.failures, "visits")


class Half:
    """Somebody who has sent the beginning of a request."""

    BEGINNING = b"GET / HTTP/1.1\r\nHo"

    def __init__(self, site, way):
        self._socket = site.visit(way)
        if way == "secure":
            self._socket = site.enter(site.context.wrap_socket(self._socket, server_hostname="localhost"))
        self._socket.sendall(self.BEGINNING)

    def answer(self):
        """Sends the rest; the answer, or what there was instead."""
        try:
            self._socket.sendall(b"st: h\r\nConnection: close\r\n\r\n")
            return self._socket.makefile("rb").read().decode()
        except OSError as error:
            return repr(error)


class Hand:
    """One end of the control socket's connection, by hand."""

    def __init__(self, connection):
        self.connection = connection
        self.connection.settimeout(PATIENCE)
        self.sockets = {}
        self._held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.vanish()

    @classmethod
    def calling(cls, site):
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(site.control))
        return cls(made)

    def vanish(self):
        """As a process does that is killed: all its descriptors close."""
        self.connection.close()
        for made in sum(self.sockets.values(), []):
            made.close()
        self.sockets = {}

    def say(self, line, *sockets):
        rights = array.array("i", [made.fileno() for made in sockets])
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if sockets else []
        self.connection.sendmsg([line.encode() + b"\n"], control)

    def hear(self):
        """The next line; None when the other end has gone."""
        while b"\n" not in self._held:
            try:
                data, control, _, _ = self.connection.recvmsg(1024, socket.CMSG_SPACE(32 * 4))
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._held += data
            for _, _, rights in control:
                self._given = [socket.socket(fileno=fd) for fd in array.array("i", rights)]
        line, _, self._held = self._held.partition(b"\n")
        return line.decode()

    def take_over(self):
        """Asks for the sockets, and gets them."""
        self.say("take-over 1")
        answer = self.hear()
        assert answer and answer.startswith("sockets "), answer
        for name, made in zip(answer.split()[1:], self._given, strict=True):
            self.sockets.setdefault(name, []).append(made)
        return self

    def accept(self):
        """A connection of each listener, in place of a hub."""
        for listener in self.sockets["listen"]:
            listener.settimeout(PATIENCE)
        return [listener.accept()[0] for listener in self.sockets["listen"]]


@contextlib.contextmanager
def played_hub(site):
    """Listens where hubs listen, as the hub before one that takes over; the sockets and the control socket."""
    clear, secure, operations, unix, control = (
        socket.socket(), socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX))
    for made, port in ((clear, site.clear), (secure, site.secure), (operations, site.operations)):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    for made, path in ((unix, site.unix), (control, site.control)):
        made.bind(str(path))
    every = [control, operations, clear, secure, unix]
    for made in every:
        made.listen(64)
    control.settimeout(PATIENCE)
    try:
        yield every
    finally:
        for made in every:
            made.close()


def activated(site, listeners, names, *arguments, until='"ready"', **environment):
    """`carillon serve` as systemd starts it: with these sockets as descriptors 3, 4 … and variables that say so."""
    launch = passing(listeners)
    return site.start(*arguments, before=launch.pop("before"), until=until, options=launch,
                      LISTEN_FDNAMES=":".join(names), **environment)


def wait_for_end(program, status=0):
    assert program.wait() == status, program.err.text()


