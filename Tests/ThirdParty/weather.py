"""What befalls the servers in a storm: kills at any moment and at named places, and stops without a checkpoint."""

import asyncio
import random

#: Where a debug build can be told to die: before a statement is sent, between commit and reply, between reply and
#: events.
FAILPOINTS = ("before-send", "after-commit", "after-reply")

#: How long a hub that has been told to die may live after its time, in seconds.
GRACE = 5


class Weather:
    """Kills and stops at random numbers of actions answered, one after the other."""

    def __init__(self, stage, ledger, plan, expected, seed):
        self.stage = stage
        self.ledger = ledger
        self.dice = random.Random(f"{seed}/weather")
        #: The next life of the hub ends there.
        self.failpoint = None
        kinds = ["kill"] * plan.kills + ["stop"] * plan.stops
        self.dice.shuffle(kinds)
        # The first tenth and the last tenth are calm.
        moments = sorted(self.dice.uniform(0.05, 0.85) * expected for _ in kinds)
        self.plan = list(zip(moments, kinds))
        self.kills_left = plan.kills

    async def run(self):
        for moment, kind in self.plan:
            await self._wait(moment)
            await getattr(self, kind)()

    async def _wait(self, moment):
        """Until so many have been answered, or the hub has died where it was told to."""
        reached = asyncio.ensure_future(self.ledger.reached(moment))
        while not reached.done() and self.stage.hub_is_running:
            await asyncio.wait([reached], timeout=0.05)
        reached.cancel()

    async def kill(self):
        if self.failpoint:
            try:
                await asyncio.to_thread(self.stage.program.wait, GRACE)
                self.ledger.counts[f"died {self.failpoint.partition(':')[0]}"] += 1
            except Exception:
                self.ledger.counts["failpoint not reached"] += 1
        await self._end_hub()
        await self._start_hub()

    async def _end_hub(self):
        if not self.failpoint and not self.stage.hub_is_running:
            self.ledger.fault(f"the hub ended by itself:\n{self.stage.program.err.text()[-4000:]}")
        await asyncio.to_thread(self.stage.kill_hub)
        self.ledger.counts["kills"] += 1
        self.kills_left -= 1

    async def _start_hub(self):
        self.failpoint = None
        if self.kills_left and self.dice.random() < 0.6:
            self.failpoint = f"{self.dice.choice(FAILPOINTS)}:{self.dice.randrange(1, 60)}"
        await asyncio.to_thread(self.stage.start_hub, self.failpoint)

    async def stop(self):
        """PostgreSQL without a checkpoint; it comes back when phones have been told to try again."""
        await asyncio.to_thread(self.stage.crash_database)
        self.ledger.counts["stops"] += 1
        told = self.ledger.counts["retry unavailable"]
        for _ in range(60):
            if self.ledger.counts["retry unavailable"] > told + 3:
                break
            await asyncio.sleep(0.05)
        await asyncio.to_thread(self.stage.start_database)
