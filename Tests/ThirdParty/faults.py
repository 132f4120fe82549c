"""What happens to the servers in a storm: kills at any moment and at failpoints, and stops without a checkpoint."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess

from waiting import becomes

#: Where a debug build can be told to die: before a statement is sent, while its outcome is unknown, between commit and
#: reply, between reply and events.
FAILPOINTS = ("before-send", "after-send", "after-commit", "after-reply")

#: How long a hub that has been told to die may live after its time, in seconds.
GRACE = 5


class ServerFaults:
    """Kills, stops and terminations at random numbers of actions answered, one after the other."""

    def __init__(self, stage, ledger, plan, expected, seed):
        self.stage = stage
        self.ledger = ledger
        self.dice = random.Random(f"{seed}/faults")
        kinds = self._kinds(plan)
        self.dice.shuffle(kinds)
        # The first and the last part are calm.
        self.plan = list(zip(sorted(self.dice.uniform(0.05, 0.85) * expected for _ in kinds), kinds))
        self.failpoints = FAILPOINTS if plan.kills and stage.hubs[0].knows_failpoints() else ()
        #: Hubs that are killed.
        self.mortal = stage.hubs
        #: By hub, where its present life ends.
        self.fates = {}

    @staticmethod
    def _kinds(plan):
        return (["kill"] * plan.kills + ["stop"] * plan.stops + ["terminate"] * plan.terminations
                + ["freeze"] * plan.freezes)

    def _reached(self, moment):
        """Moments are numbers of actions answered."""
        return self.ledger.reached(moment)

    async def run(self):
        while self.plan:
            moment, kind = self.plan[0]
            if await self._wait(moment) and kind != "kill":
                await self._kill_early()
            else:
                del self.plan[0]
                await getattr(self, kind)()
        for hub in list(self.fates):
            await self._renew(hub)

    async def _wait(self, moment):
        """Until so many have been answered; or until a hub has died where it was told to: then true."""
        reached = asyncio.ensure_future(self._reached(moment))
        try:
            while not reached.done():
                if not all(hub.is_running for hub in self.stage.hubs):
                    return True
                await asyncio.wait([reached], timeout=0.05)
            return False
        finally:
            reached.cancel()

    def _kills_left(self):
        return [index for index, (_, kind) in enumerate(self.plan) if kind == "kill"]

    async def _kill_early(self, grace=GRACE):
        """One of the kills to come is had now."""
        del self.plan[self._kills_left()[0]]
        await self.kill(grace)

    async def kill(self, grace=GRACE):
        """SIGKILL to a hub, from here or at its failpoint, and another life, which may be told where to end."""
        hub = next((hub for hub in self.stage.hubs if not hub.is_running), None) or self.dice.choice(self.mortal)
        await self._renew(hub, len(self._kills_left()) > len(self.fates) and self.dice.random() < 0.6, grace)
        self.ledger.counts["kills"] += 1

    async def _renew(self, hub, with_failpoint=False, grace=GRACE):
        fate = self.fates.pop(hub, None)
        if fate:
            try:
                await asyncio.to_thread(hub.program.wait, grace)
                self.ledger.counts[f"died {fate.partition(':')[0]}"] += 1
            except subprocess.TimeoutExpired:
                self.ledger.counts["failpoint not reached"] += 1
        elif not hub.is_running:
            self.ledger.fault(f"the hub ended by itself:\n{hub.program.err.text()[-4000:]}")
        await asyncio.to_thread(hub.kill)
        if with_failpoint and self.failpoints:
            self.fates[hub] = f"{self.dice.choice(self.failpoints)}:{self.dice.randrange(1, 60)}"
        await asyncio.to_thread(hub.start, self.fates.get(hub))

    async def stop(self):
        """PostgreSQL without a checkpoint; it comes back when phones have been told to try again."""
        await asyncio.to_thread(self.stage.crash_database)
        self.ledger.counts["stops"] += 1
        told = self.ledger.counts["retry unavailable"]
        try:
            await becomes(lambda: self.ledger.counts["retry unavailable"] > told + 10, 3)
            if len(self._kills_left()) > len(self.fates) and self.dice.random() < 0.4:
                # The hub comes back before its database does.
                await self._kill_early(grace=0)
                self.ledger.counts["kills in an outage"] += 1
        finally:
            await asyncio.to_thread(self.stage.start_database)

    def _sessions(self):
        """The server's processes that work for hubs."""
        with self.stage.superuser() as connection:
            rows = connection.execute("select pid from pg_stat_activity where usename = 'carillon_hub'").fetchall()
        return [row[0] for row in rows]

    async def terminate(self):
        """All sessions of the hub's, in the middle of whatever they do: what was sent has an unknown outcome."""
        for pid in await asyncio.to_thread(self._sessions):
            self._signal(pid, signal.SIGTERM)
            self.ledger.counts["sessions terminated"] += 1

    async def freeze(self):
        """A session stands still, with what it has locked; in the end longer than the hub believes in it."""
        sessions = await asyncio.to_thread(self._sessions)
        if sessions:
            pid = self.dice.choice(sessions)
            self._signal(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(self.dice.choice([0.5, 2, 8]))
            finally:
                self._signal(pid, signal.SIGCONT)
            self.ledger.counts["sessions frozen"] += 1

    @staticmethod
    def _signal(pid, number):
        """Sends a signal to a process, which may have ended meanwhile."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
