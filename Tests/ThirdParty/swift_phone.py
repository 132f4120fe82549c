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
from ledger import Action
from lines import Unanswered, in_time

#: The device, built beside the hub.
DEVICE = os.environ.get("CLIENT_DEVICE") or str(pathlib.Path(PROGRAM).with_name("ClientDevice"))

#: What a device may answer to a request that comes too late.
LATE = ("noConflict", "closed")

#: Of a hundred acts, how many are on reminders.
REMINDERS = 12


class Died(Exception):
    """The process has ended."""


class SwiftPhone:
    """Acts, is killed, comes back, decides its conflicts, and shows."""

    def __init__(self, storm, person, number, dice, source, actions):
        self.storm = storm
        self.ledger = storm.ledger
        self.person = person
        self.name = f"{storm.name}.{number}"
        self.dice = dice
        self.source = source
        self.budget = actions
        self.port = storm.stage.hubs[0].port
        self._folder = tempfile.TemporaryDirectory(prefix="phone-")
        self.process = None
        #: Keys of its actions that are in the ledger, and of those that it has taken back before they were sent.
        self.mine = []
        self.cancelled = set()
        #: What it is about to do: killed then, nobody knows whether it is done.
        self._intent = None
        self._rules = []
        #: What it shows, and how it stands; nothing while it is not there.
        self.shown = self.standing = None
        #: As its store tells at the end.
        self.devices = set()
        self.position = None
        self.rows = {}

    # Life.

    async def live(self):
        try:
            while True:
                try:
                    await self._sit()
                except Died:
                    self.ledger.counts["deaths"] += 1
                finally:
                    await self._bury()
                await asyncio.sleep(self.dice.uniform(0.01, 0.3))
        finally:
            self._folder.cleanup()

    async def _sit(self):
        environment = {name: value for name, value in os.environ.items() if name != "DIE_AT_WRITE"}
        fate, end = self.dice.random(), None
        if self.budget and fate < 0.5:
            # A write is a part of a transaction, or a message to the hub.
            environment["DIE_AT_WRITE"] = str(self.dice.randrange(1, 150))
        self.process = await asyncio.create_subprocess_exec(
            DEVICE, f"http://127.0.0.1:{self.storm.proxy.port}", APP_KEY, self.person.user,
            self.storm.token(self.person.user), self._folder.name, env=environment, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE)
        self.ledger.counts["lives"] += 1
        if self.budget and 0.5 <= fate < 0.75:
            end = asyncio.get_running_loop().call_later(self.dice.uniform(0.02, 2), self._kill)
        try:
            await self._answer()
            while True:
                await self._live_on()
        finally:
            if end:
                end.cancel()

    async def _live_on(self):
        if self.budget:
            if self.dice.random() < 0.15:
                await self._ask(do="suspend")
                for _ in range(self.dice.randrange(1, 7)):
                    await self._act()
                await self._ask(do="start")
            else:
                await self._act()
        standing = await self._ask(do="standing")
        for conflict in standing["conflicts"]:
            await self._decide(conflict)
        for failure in standing["failures"]:
            await self._ask(do="dismiss", key=failure["key"])
        self.shown = await self._ask(do="shown")
        self.standing = standing
        await asyncio.sleep(self.dice.uniform(0, 0.1) if self.budget else 0.15)

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def _bury(self):
        self.shown = self.standing = None
        if self.process is None:
            return
        self._kill()
        await self.process.wait()
        self.process = None
        self._open()
        if self.budget and self.dice.random() < 0.1:
            self._move()

    def _open(self):
        """Reads the store of the dead: what it kept of the last act that nobody was told of."""
        found = list(pathlib.Path(self._folder.name).glob("*.sqlite"))
        if not found:
            return
        with contextlib.closing(sqlite3.connect(f"file:{found[0]}", uri=True)) as store:
            try:
                rows = store.execute("select key, type, payload, state, n from actions order by id").fetchall()
                self.devices.add(dict(store.execute("select name, value from meta")).get("device"))
                self.position = dict(store.execute("select channel, offset from positions"))
                for value, in store.execute("select value from entities where value is not null"):
                    self.storm.overheard(self.person, value.decode())
            except sqlite3.OperationalError:
                return  # It died before it had made its tables.
        self.rows = {key: state for key, _, _, state, _ in rows}
        for key, kind, payload, _, _ in rows:
            if key not in self.ledger.entries:
                self.ledger.counts["acts kept and not told"] += 1
                self._enter(Action(key, kind, json.loads(payload[1:])))
        intent, self._intent = self._intent, None
        if intent and intent in self.mine and intent not in self.rows:
            self.cancelled.add(intent)


    def _move(self):
        """Moves to another phone by a backup: other files, with the same in them."""
        self.ledger.counts["moved to another phone"] += 1
        for file in pathlib.Path(self._folder.name).glob("*.sqlite*"):
            copy = file.with_suffix(file.suffix + ".copy")
            shutil.copyfile(file, copy)
            copy.rename(file)

    @property
    def is_idle(self):
        standing = self.standing
        return bool(not self.budget and standing and not standing["waiting"] and not standing["conflicts"]
                    and not standing["failures"])

    # What it does.

    async def _ask(self, **request):
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
        answer = json.loads(line)
        if "error" in answer and not answer["error"].startswith(LATE):
            self.ledger.fault(f"{self.name}: {answer['error']} to {request}")
        return answer

    def _enter(self, action):
        self.ledger.enter(action, self)
        self.mine.append(action.key)
        self.person.keys.append(action.key)

    async def _act(self):
        if not self.budget:
            return
        self.budget -= 1
        self.storm.acted += 1
        action = self._reminder() if self.dice.randrange(100) < REMINDERS else self.source.next()
        if action.key in self.person.keys:
            self.person.keys.remove(action.key)
        if action.type == "undo":
            target = self._intent = action.payload["targetKey"]
            answer = await self._ask(do="undo", key=target)
            if "key" in answer and answer["key"] is None:
                self.cancelled.add(target)
        else:
            answer = await self._ask(do="act", type=action.type, payload=action.payload)
        self._intent = None
        if answer.get("key"):
            self._enter(Action(answer["key"], action.type, action.payload))

    def _reminder(self):
        dice = self.dice
        known = [rule["id"] for rule in (self.shown or {}).get("rules", [])]
        if not known or dice.random() < 0.3:
            payload = {"productId": f"{self.person.user}.p", "time": f"{dice.randrange(24):02}:{dice.randrange(60):02}",
                       "label": self.source.text("label")}
            return Action(f"{self.name}-r", "createReminder", payload)
        identity = dice.choice(known)
        if dice.random() < 0.15:
            return Action(f"{self.name}-r", "deleteReminder", {"id": identity})
        change = dice.choice([
            {"time": f"{dice.randrange(24):02}:30"}, {"enabled": dice.random() < 0.5}, {"label": self.source.text("label")}])
        return Action(f"{self.name}-r", "updateReminder", {"id": identity, **change})

    async def _decide(self, conflict):
        """By dice, and by giving in where it has come back twice."""
        entry = self.ledger.entries.get(conflict["key"])
        round = (entry.action.round if entry else 0) + 1
        wanted = self.source.resolution(conflict["key"], {"server": conflict["server"]} if conflict["server"] else None,
                                        conflict["isWhole"], round)
        self.person.keys.remove(wanted.key)
        if entry and entry.action.type.endswith("Reminder"):
            wanted.payload.pop("merged", None)
        payload = wanted.payload
        answer = await self._ask(do="resolve", key=conflict["key"], **{
            name: payload[name] for name in ("choice", "merged") if name in payload})
        if answer.get("key"):
            self._enter(Action(answer["key"], "resolve", payload, round=round))
        self.ledger.counts["decisions"] += 1
