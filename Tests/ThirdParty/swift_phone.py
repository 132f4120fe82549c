"""A phone with the Swift library: a process that is killed between any two writes, and comes back with its store."""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import tempfile

from hub import APP_KEY, PROGRAM
from library_phone import Died, Kept, LibraryPhone, Screen
from lines import Unanswered, in_time

#: The device, built beside the hub.
DEVICE = os.environ.get("CLIENT_DEVICE") or str(pathlib.Path(PROGRAM).with_name("ClientDevice"))


class SwiftPhone(LibraryPhone):
    """A process of `Tests/ClientDevice` on a folder with a store."""

    late = ("noConflict", "closed")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._folder = tempfile.TemporaryDirectory(prefix="phone-")
        self.process = None

    async def begin(self, die_at):
        environment = {name: value for name, value in os.environ.items() if name != "DIE_AT_WRITE"}
        if die_at:
            environment["DIE_AT_WRITE"] = str(die_at)
        self.process = await asyncio.create_subprocess_exec(
            DEVICE, f"http://127.0.0.1:{self.proxy.port}", APP_KEY, self.person.user,
            self.storm.token(self.person.user), self._folder.name, env=environment, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE)
        await self._answer()

    async def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            await self.process.stdin.drain()
        except (ConnectionError, OSError):
            raise Died from None
        return await self._answer(request)

    async def _answer(self, request=None):
        try:
            line = await in_time(self.process.stdout.readline(), f"an answer to {request}")
        except Unanswered as error:
            self.ledger.fault(f"{self.name}: not there: {error}")
            raise Died from None
        if not line.endswith(b"\n"):
            raise Died
        return json.loads(line)

    async def look(self):
        standing = await self.ask({"do": "standing"})
        shown = await self.ask({"do": "shown"})
        # Events of another day change nothing that is shown: only the positions tell that they are still to come.
        return [Screen(self.name, shown, standing, self._positions())]

    def _positions(self):
        """What its store has now; nothing before the store has tables."""
        found = list(pathlib.Path(self._folder.name).glob("*.sqlite"))
        if not found:
            return {}
        with contextlib.closing(sqlite3.connect(f"file:{found[0]}?mode=ro", uri=True)) as store:
            try:
                return dict(store.execute("select channel, offset from positions"))
            except sqlite3.OperationalError:
                return {}

    @contextlib.asynccontextmanager
    async def away(self):
        await self._asked(do="suspend")
        yield
        await self._asked(do="start")

    async def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def bury(self):
        if self.process is None:
            return
        await self.kill()
        await self.process.wait()
        self.process = None
        self._open()
        if self.budget and self.dice.random() < 0.1:
            self._move()

    def _open(self):
        """Reads the store of the dead."""
        found = list(pathlib.Path(self._folder.name).glob("*.sqlite"))
        if not found:
            return
        with contextlib.closing(sqlite3.connect(f"file:{found[0]}", uri=True)) as store:
            try:
                rows = store.execute("select key, type, payload, state from actions order by id").fetchall()
                kept = Kept(
                    [(key, kind, json.loads(payload[1:]), state) for key, kind, payload, state in rows],
                    dict(store.execute("select name, value from meta")).get("device"),
                    dict(store.execute("select channel, offset from positions")),
                    [value.decode() for value, in store.execute("select value from entities where value is not null")])
            except sqlite3.OperationalError:
                return  # It died before it had made its tables.
        self.learn(kept)

    def _move(self):
        """Moves to another phone by a backup: other files, with the same in them."""
        self.ledger.counts["moved to another phone"] += 1
        for file in pathlib.Path(self._folder.name).glob("*.sqlite*"):
            copy = file.with_suffix(file.suffix + ".copy")
            shutil.copyfile(file, copy)
            copy.rename(file)

    async def end(self):
        await self.bury()
        self._folder.cleanup()
