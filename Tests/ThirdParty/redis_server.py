"""Redis servers of our own, which keep nothing on disk."""

import atexit
import functools
import pathlib
import subprocess
import tempfile

from balancers import found
from stage import free_port
from waiting import PATIENCE, eventually

#: None where the machine has none.
PROGRAM = found("redis-server")


class Redis:
    """A server on a port that stays the same from life to life. What it had is gone with each."""

    def __init__(self, *settings):
        self.port, self._settings = free_port(), settings
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
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        self._process = subprocess.Popen(
            [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--logfile", "log", *self._settings], cwd=self._folder.name, stdin=subprocess.DEVNULL)
        log = pathlib.Path(self._folder.name, "log")
        eventually(lambda: log.exists() and "Ready to accept connections" in log.read_text(), "Redis is ready")

    def stop(self):
        """Whatever it has is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)
        pathlib.Path(self._folder.name, "log").unlink(missing_ok=True)

    def pause(self, milliseconds):
        """Nobody is answered for so long."""
        self("CLIENT", "PAUSE", str(milliseconds))

    def __call__(self, *command):
        client = pathlib.Path(PROGRAM).with_name("redis-cli")
        return subprocess.run([client, "-p", str(self.port), *command], check=True, capture_output=True, text=True,
                              timeout=PATIENCE).stdout.strip()


@functools.cache
def shared():
    """One for all tests of this process, whose hubs have names of their own in it."""
    server = Redis()
    server.start()
    atexit.register(server.__exit__)
    return server
