"""A device of the Swift library with a line to the hub that can be cut, and the program with a fault put in."""

import contextlib
import json
import os
import pathlib
import queue
import re
import signal
import sqlite3
import subprocess
import tempfile
import threading

from hub import APP_KEY
from library_phone import Died
from proxy import BackgroundProxy
from swift_phone import DEVICE
from waiting import PATIENCE, eventually

ROOT = pathlib.Path(__file__).parents[2]


class SwiftDevice:
    """A folder with a store, a line, and the processes on them."""

    def __init__(self, hub, user, program=None):
        self.hub = hub
        self.user = user
        self.program = program or DEVICE
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._background = self._stack.enter_context(BackgroundProxy(self.hub.port))
        self.proxy = self._background.proxy
        self.folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="phone-"))
        return self

    def __exit__(self, *_):
        self._stack.close()

    def offline(self):
        self.proxy.is_down = True
        self._background.do(self.proxy.cut_all())

    def online(self):
        self.proxy.is_down = False

    def fence(self):
        """The number of the lease in the store."""
        store, = pathlib.Path(self.folder).glob("*.sqlite")
        with contextlib.closing(sqlite3.connect(store)) as connection:
            return connection.execute("select fence from lease").fetchone()[0]

    def process(self, die_at=None):
        """Another process of the app."""
        made = SwiftProcess(self, die_at)
        self._stack.callback(made.kill)
        return made


class SwiftProcess:
    """A running client. `die_at`: the write before which it dies."""

    def __init__(self, device, die_at=None):
        environment = {**os.environ, **({"DIE_AT_WRITE": str(die_at)} if die_at else {})}
        self.process = subprocess.Popen(
            [device.program, f"http://127.0.0.1:{device.proxy.port}", APP_KEY, device.user,
             device.hub.token(device.user), device.folder], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)
        # A frozen process does not answer: lines are read on a thread of their own.
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def begin(self):
        """Waits until its store is open; `opened` says how long that took, and whether it has something to show."""
        self.opened = self._answer()
        return self

    def ask(self, what, **more):
        try:
            self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
            self.process.stdin.flush()
        except (ConnectionError, ValueError, OSError):
            raise Died from None
        answer = self._answer()
        assert "error" not in answer, answer
        return answer

    def _answer(self):
        line = self._lines.get(timeout=PATIENCE)
        if not line.endswith("\n"):
            raise Died
        return json.loads(line)

    def kill(self):
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def act(self, kind, **payload):
        return self.ask("act", type=kind, payload=payload)["key"]

    def dose(self, identity):
        return next((dose for dose in self.ask("shown")["doses"] if dose["id"] == identity), None)

    def settles(self):
        def is_quiet():
            standing = self.ask("standing")
            return (standing["connection"] == "connected" and standing["waiting"] == standing["pending"] == 0
                    and self.ask("shown")["date"])

        eventually(is_quiet, "the device is connected and has sent all")
        return self

    def agrees(self, rows):
        """It shows what the table has: `rows()`."""
        self.settles().shows(rows)

    def shows(self, rows):
        eventually(lambda: self._shown() == rows(), f"the device shows {self._shown()}, and there is {rows()}")

    def _shown(self):
        return {one["id"]: {name: one[name] for name in ("status", "note", "rev")} for one in self.ask("shown")["doses"]}


def mutant(folder, changes):
    """The program with changes of the library's sources: (file, before, after). It is built as SwiftPM has built it."""
    debug = pathlib.Path(DEVICE).parent
    commands = (debug.parent / "debug.yaml").read_text()

    def arguments(description):
        found = re.search(rf'description: "{description}.*"\n    args: (\[.*\])\n', commands)
        return json.loads(found[1])

    sources = pathlib.Path(folder, "sources")
    files = []
    for file in sorted((ROOT / "Sources/Clients/CarillonClient").rglob("*.swift")):
        text = file.read_text()
        for name, before, after in changes:
            if name == file.name:
                assert text.count(before) == 1, f"{name} has changed: {before}"
                text = text.replace(before, after)
        sources.mkdir(exist_ok=True)
        (sources / file.name).write_text(text)
        files.append(str(sources / file.name))
    compile = arguments("Compiling Swift Module 'CarillonClient'")
    kept, skip = [], 0
    for argument in compile:
        if skip:
            skip -= 1
        elif argument in ("-emit-module-path", "-output-file-map", "-index-store-path"):
            skip = 1
        elif argument not in ("-emit-dependencies", "-emit-module", "-incremental", "-enable-batch-mode", "-j2",
                              "-serialize-diagnostics") and not argument.startswith("@"):
            kept.append(argument)
    made = pathlib.Path(folder, "CarillonClient.o")
    built = subprocess.run([*kept, "-wmo", "-o", str(made), *files], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-4000:]
    listed = (debug / "ClientDevice.product/Objects.LinkFileList").read_text().split("\n")
    objects = pathlib.Path(folder, "objects")
    objects.write_text("\n".join([one for one in listed if "/CarillonClient.build/" not in one] + [str(made)]))
    program = pathlib.Path(folder, "ClientDevice")
    link = [f"@{objects}" if argument.startswith("@") else argument for argument in arguments("Linking .*ClientDevice")]
    link[link.index("-o") + 1] = str(program)
    built = subprocess.run(link, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-4000:]
    return str(program)
