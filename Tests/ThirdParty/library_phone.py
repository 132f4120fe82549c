"""A device of a client library: it acts, is killed between any two writes, comes back with its store, and shows."""

import asyncio
import dataclasses

from ledger import Action
from proxy import Proxy

#: Of a hundred acts, how many are on reminders.
REMINDERS = 12


class Died(Exception):
    """The device, or a part of it, has ended."""


@dataclasses.dataclass
class Kept:
    """What a store has."""

    #: Actions in their order: key, type, payload and state.
    actions: list
    #: The device's id; none where the store was not finished.
    device: str | None
    #: Offsets by channel.
    positions: dict
    #: All that the hub said.
    texts: list


@dataclasses.dataclass
class Screen:
    """What a process or a tab shows, and how it stands."""

    name: str
    shown: dict
    standing: dict
    #: Offsets by channel, as far as they are stored.
    positions: dict

    @property
    def is_quiet(self):
        return not any(self.standing[name] for name in ("waiting", "conflicts", "failures"))


class LibraryPhone:
    """What devices of all libraries do in a history. How they begin, answer and die, and what a store is, is their own."""

    #: How answers begin that a request may have which comes too late.
    late = ()

    def __init__(self, storm, person, number, dice, source, actions):
        self.storm = storm
        self.ledger = storm.ledger
        self.person = person
        self.name = f"{storm.name}.{number}"
        self.dice = dice
        self.source = source
        self.budget = actions
        #: Its line to the hubs, with faults of its own.
        self.proxy = Proxy(*[hub.port for hub in storm.stage.hubs], seed=f"{storm.seed}/{number}", every=storm.plan.every)
        #: Keys of its actions that are in the ledger, and of those that it has taken back before they were sent.
        self.mine = []
        self.cancelled = set()
        #: What it is about to take back: killed then, nobody knows whether it is done.
        self._intent = None
        #: What it shows; nothing while it is not there.
        self.screens = []
        #: As its store tells at the end.
        self.devices = set()
        self.position = None
        self.rows = {}

    # What each library does in its own way.

    async def begin(self, die_at):
        """Starts it; it dies before its n-th write. A write is a part of a transaction, or a message to the hub."""
        raise NotImplementedError

    async def ask(self, request):
        """The answer to a request; raises `Died`."""
        raise NotImplementedError

    async def look(self):
        """What its screens show."""
        raise NotImplementedError

    def away(self):
        """A context without a network."""
        raise NotImplementedError

    async def kill(self):
        """Ends it as it stands."""
        raise NotImplementedError

    async def bury(self):
        """After a death: what is left of it goes, or lives on."""
        raise NotImplementedError

    async def end(self):
        """Ends all of it, and learns what its store has."""
        raise NotImplementedError

    # Life.

    async def live(self):
        try:
            while True:
                try:
                    await self._sit()
                except Died:
                    self.ledger.counts["deaths"] += 1
                self.screens = []
                await self.bury()
                await asyncio.sleep(self.dice.uniform(0.01, 0.3))
        finally:
            await self.end()

    async def _sit(self):
        fate, end = self.dice.random(), None
        await self.begin(self.dice.randrange(1, 150) if self.budget and fate < 0.5 else None)
        self.ledger.counts["lives"] += 1
        if self.budget and 0.5 <= fate < 0.75:
            end = asyncio.create_task(self._end_after(self.dice.uniform(0.02, 2)))
        try:
            while True:
                await self._live_on()
        finally:
            if end:
                end.cancel()
                await asyncio.wait([end])

    async def _end_after(self, seconds):
        await asyncio.sleep(seconds)
        await self.kill()

    async def _live_on(self):
        if self.budget:
            if self.dice.random() < 0.15:
                async with self.away():
                    for _ in range(self.dice.randrange(1, 7)):
                        await self._act()
            else:
                await self._act()
        screens = await self.look()
        for conflict in screens[0].standing["conflicts"]:
            await self._decide(conflict)
        for failure in screens[0].standing["failures"]:
            await self._asked(do="dismiss", key=failure["key"])
        self.screens = screens
        await asyncio.sleep(self.dice.uniform(0, 0.1) if self.budget else 0.15)

    @property
    def is_idle(self):
        return bool(not self.budget and self.screens and all(screen.is_quiet for screen in self.screens))

    def learn(self, kept):
        """What a store kept, also of an act that nobody was told of."""
        self.devices.add(kept.device)
        self.position = kept.positions
        for text in kept.texts:
            self.storm.overheard(self.person, text)
        self.rows = {key: state for key, _, _, state in kept.actions}
        for key, kind, payload, _ in kept.actions:
            if key not in self.ledger.entries:
                self.ledger.counts["acts kept and not told"] += 1
                self._enter(Action(key, kind, payload))
        intent, self._intent = self._intent, None
        if intent and intent in self.mine:
            self.cancelled.update(key for key in (intent, *self._decisions(intent)) if key not in self.rows)

    # What it does.

    async def _asked(self, **request):
        answer = await self.ask(request)
        if "error" in answer and not answer["error"].startswith(self.late):
            self.ledger.fault(f"{self.name}: {answer['error']} to {request}")
        return answer

    def _decisions(self, key):
        """Keys of the decisions of its conflict. One that was not sent goes with what is taken back, undone or not sent."""
        mine = ((other, self.ledger.entries[other].action) for other in self.mine)
        return [other for other, action in mine if action.type == "resolve" and action.payload["of"] == key]

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
            answer = await self._asked(do="undo", key=target)
            if "key" in answer:
                if answer["key"] is None:
                    self.cancelled.add(target)
                self.cancelled.update(self._decisions(target))
        else:
            answer = await self._asked(do="act", type=action.type, payload=action.payload)
        self._intent = None
        if answer.get("key"):
            self._enter(Action(answer["key"], action.type, action.payload))

    def _reminder(self):
        dice = self.dice
        known = [rule["id"] for screen in self.screens[:1] for rule in screen.shown["rules"]]
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
        answer = await self._asked(do="resolve", key=conflict["key"], **{
            name: payload[name] for name in ("choice", "merged") if name in payload})
        if answer.get("key"):
            self._enter(Action(answer["key"], "resolve", payload, round=round))
        self.ledger.counts["decisions"] += 1
