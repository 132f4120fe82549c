"""A soak: journeys on a bad network, one after the other, while everything falls; and a hub that must stay as it was.

    Tests/ThirdParty/soak --minutes 30 [--devices N] [--seed N]

Two hubs serve. The younger is killed and restarted; the elder lives from the beginning to the end, through every fall of
PostgreSQL and of the network. Between two journeys nobody is there: what the elder holds then must be what it held before.
A line of progress for each journey goes to standard error, and JSON of all to standard output.
"""

import argparse
import asyncio
import collections
import dataclasses
import json
import os
import sys
import time

from meters import Meters
from resume import SETTINGS, Journey, JourneyFaults, Route
from roaming_phone import RoamingPhone
from stage import Stage
from storm import new_seed
from waiting import PATIENCE, eventually
from wire import resident

#: Growth of the elder's memory from the first quiet points to the last that is noise of the allocator: a share, and bytes.
MEMORY_SHARE, MEMORY_BYTES = 0.05, 4 << 20

#: Descriptors of connections to PostgreSQL that are just being replaced, and of the request that asks.
SPARE_DESCRIPTORS = 2

#: Gauges that are 0 when nobody is there.
EMPTY = ("carillon_connections{", "carillon_subscriptions{", "carillon_channels", "carillon_send_queues_bytes",
         "carillon_unfinished_bytes", "carillon_outbox_lag_events", "carillon_channel_lag_events",
         "carillon_actions_waiting", "carillon_feed_log_reads_waiting",
         'carillon_pg_connections{role="tail",state="down"}')

#: And this, half a minute after the last subscriber has left.
WATCHED = ("carillon_feed_streams",)

#: What of all that is counted is in the JSON.
TOLD = ("actions", "events", "applied", "recovered", "replayed", "snapshots", "reconnects", "foreign transactions", "kills",
        "restarts", "stops", "sessions terminated", "sessions frozen", "new epochs", "deleted events", "herds",
        "long absences", "link: links", "link: cut", "link: half_open", "link: delay", "link: dribble", "link: stall_down",
        "link: stall_up")


@dataclasses.dataclass
class Leg(Route):
    """The numbers of one journey of a soak."""

    #: Times that the younger hub is restarted as operators do it.
    restarts: int = 1


class SoakFaults(JourneyFaults):
    """The younger hub is killed, and restarted with a goodbye; the elder never."""

    def __init__(self, journey):
        super().__init__(journey)
        self.mortal = self.stage.hubs[1:]

    @staticmethod
    def _kinds(plan):
        return JourneyFaults._kinds(plan) + ["restart"] * plan.restarts

    async def restart(self):
        hub, = self.mortal
        # In a life that was not told where to end.
        await self._renew(hub)
        await asyncio.to_thread(hub.end)
        await asyncio.to_thread(hub.start)
        self.ledger.counts["restarts"] += 1


class AbsentPhone(RoamingPhone):
    """Is sometimes away for long."""

    @property
    def pause(self):
        if self.dice.random() < 0.1:
            self.ledger.counts["long absences"] += 1
            return 3, 10
        return 0.1, 0.8


class Trip(Journey):
    """One journey of a soak."""

    phone = AbsentPhone

    def _faults(self):
        return SoakFaults(self)


class Soak:
    """Journeys on one stage, and what the elder hub holds between them."""

    def __init__(self, stage, seconds, leg, devices, seed):
        self.stage, self.seconds, self.leg, self.devices, self.seed = stage, seconds, leg, devices, seed
        self.elder = stage.hubs[0]
        self.counts = collections.Counter()
        self.faults = []
        #: Bytes and descriptors of the elder at each quiet point.
        self.memory, self.descriptors = [], []
        self.journeys = 0

    def run(self):
        """Returns the report, for JSON."""
        began = time.monotonic()
        while not self.faults:
            left = began + self.seconds - time.monotonic()
            # Less than that is no journey.
            if self.journeys and left < self.leg / 2:
                break
            self._journey(max(5, min(self.leg, left)))
            self._tell(time.monotonic() - began)
        if not self.faults:
            self._judge()
        return {
            "seconds": round(time.monotonic() - began), "seed": self.seed, "devices": self.devices,
            "journeys": self.journeys, "faults": self.faults,
            "memoryBytes": {"first": self.memory[0], "last": self.memory[-1], "most": max(self.memory)},
            "descriptors": {"first": self.descriptors[0], "last": self.descriptors[-1], "most": max(self.descriptors)},
            "counts": {name: self.counts[name] for name in TOLD},
        }

    def _journey(self, seconds):
        seed = self.seed + self.journeys
        route = Route.of(seconds, self.devices)
        trip = Trip(self.stage, seed, Leg(**dataclasses.asdict(route)))
        trip.run()
        self.journeys += 1
        self.counts.update(trip.ledger.counts)
        self.faults += [f"seed {seed}: {fault}" for fault in trip.ledger.faults]
        self._quiet()

    def _held(self, gauges=EMPTY):
        """Those of the elder's gauges that are not 0."""
        try:
            lines = Meters(self.elder).page().splitlines()
        except OSError:
            return ["no metrics"]
        return [line for line in lines if line.startswith(gauges) and not line.endswith(" 0")]

    def _quiet(self):
        """Nobody is there: the elder holds nothing of those who were."""
        self._empties(EMPTY)
        pid = self.elder.program.pid
        self.memory.append(resident(pid) << 10)

        def open_now():
            return len(os.listdir(f"/proc/{pid}/fd"))

        if self.descriptors:
            try:
                eventually(lambda: open_now() <= self.descriptors[0] + SPARE_DESCRIPTORS, "descriptors are as at first")
            except AssertionError as error:
                self.faults.append(f"{error}: {open_now()}, at first {self.descriptors[0]}")
        self.descriptors.append(open_now())

    def _empties(self, gauges):
        try:
            eventually(lambda: not self._held(gauges), "the elder hub holds nothing of clients that have gone",
                       2 * PATIENCE)
        except AssertionError as error:
            self.faults.append(f"{error}: {self._held(gauges)}")

    def _judge(self):
        if not self.elder.is_running:
            self.faults.append("the elder hub has ended")
        if self.journeys > 1:
            self._empties(WATCHED)
        # The first quiet points still fill what the allocator keeps; of few, none is late enough to tell.
        if len(self.memory) >= 5:
            early, late = max(self.memory[:len(self.memory) // 3 + 1]), self.memory[-1]
            if late > early * (1 + MEMORY_SHARE) + MEMORY_BYTES:
                self.faults.append(f"memory grows: {self.memory}")

    def _tell(self, passed):
        print(f"{passed / 60:5.1f} of {self.seconds / 60:.1f} min  journey {self.journeys}"
              f"  {self.counts['actions']} actions  {self.counts['applied']} events  {self.counts['kills']} kills"
              f"  {self.counts['stops']} stops  {self.memory[-1] / 1e6:.1f} MB  {self.descriptors[-1]} descriptors"
              f"  {len(self.faults)} faults", file=sys.stderr, flush=True)


def soak(seconds, devices=60, leg=90, seed=None):
    """A whole soak on a stage of its own; its report."""
    with Stage(2, SETTINGS) as stage:
        return Soak(stage, seconds, min(leg, seconds / 3), devices, new_seed() if seed is None else seed).run()


def main():
    parser = argparse.ArgumentParser(description="Journeys, faults, and a hub that must stay as it was.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--devices", type=int, default=60)
    parser.add_argument("--leg", type=float, default=90, help="seconds of one journey")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    report = soak(60 * arguments.minutes, arguments.devices, arguments.leg, arguments.seed)
    print(json.dumps(report, indent=2))
    sys.exit(bool(report["faults"]))


if __name__ == "__main__":
    main()
