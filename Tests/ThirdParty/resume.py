"""Devices on a bad network resume where they were, whatever falls: hub, database, epochs, the log itself.

    Tests/ThirdParty/resume --seconds 300 --devices 200 [--hubs N] [--seed N]
"""

import argparse
import asyncio
import dataclasses
import random
import sys
import time

import view
from judgement import Judgement
from meters import Meters
from proxy import Proxy
from stage import Stage
from storm import Plan, Storm, new_seed
from roaming_phone import RoamingPhone
from faults import ServerFaults
from wire import resident

#: Small bounds, so that each is met: a slow line is soon behind, a window soon outrun, and a backup soon too old.
SETTINGS = {
    "CARILLON_LIMITS_SEND_QUEUE_BYTES": "512KiB", "CARILLON_LIMITS_REPLAY_EVENTS": "300",
    "CARILLON_LIMITS_WINDOW_TOTAL_BYTES": "64KiB", "CARILLON_ACTIVITY_TIMEOUT": "10s", "CARILLON_PONG_TIMEOUT": "5s",
}

#: Doses of each person that one transaction changes all together, of a day on which nothing else happens.
HERD = 120


@dataclasses.dataclass
class Route(Plan):
    """The numbers of one journey; moments are seconds."""

    seconds: float = 300
    actions: int = 0
    writers: int = 2
    pause: float = 0.12
    #: Actions that all phones together make up, each second.
    rate: float = 15
    #: Times that all epochs are made anew, that old events are deleted, that a person's herd is changed.
    epochs: int = 2
    deletions: int = 3
    herds: int = 6
    #: Days that each phone shows.
    days: int = 2
    #: Mean seconds between two faults of a link.
    every: float = 10
    calm: float = 60

    @classmethod
    def of(cls, seconds, devices):
        """A plan with as much of everything as fits."""
        part = seconds / 300
        return cls(
            users=max(2, devices // 5), phones=5, kills=max(2, round(8 * part)), stops=max(1, round(4 * part)),
            terminations=max(1, round(4 * part)), freezes=round(3 * part), epochs=max(1, round(2 * part)),
            deletions=max(3, round(6 * part)), herds=max(3, round(20 * part)), seconds=seconds, limit=seconds + 120)


#: What the hub counted, as reports call it.
METERS = {
    "hub: resumes recovered": r"resume_total\{result=.recovered", "hub: resumes lost": r"resume_total\{result=.lost",
    "hub: pages read": r"feed_reads_total\{kind=.log", "hub: pull mode entered": "pull_mode_entries_total",
    "hub: found behind": "position_check_behind_total",
}


class JourneyFaults(ServerFaults):
    """Falls at moments of the clock, and befalls the log too."""

    def __init__(self, journey):
        super().__init__(journey.stage, journey.ledger, journey.plan, journey.plan.seconds, journey.seed)
        self.people = journey.people
        self.seconds = journey.plan.seconds

    @staticmethod
    def _kinds(plan):
        return (ServerFaults._kinds(plan) + ["epoch"] * plan.epochs + ["deletion"] * plan.deletions + ["herd"] * plan.herds)

    async def run(self):
        self._started = time.monotonic()
        await super().run()
        await asyncio.sleep(max(0, self._started + self.seconds - time.monotonic()))

    def _reached(self, moment):
        return asyncio.sleep(max(0, self._started + moment - time.monotonic()))

    async def epoch(self):
        """What a restore calls for."""
        await asyncio.to_thread(self.stage.query, "select sync.new_epoch()")
        self.ledger.counts["new epochs"] += 1

    async def deletion(self):
        """Retention in a hurry; what is deleted is kept aside for the judgement."""
        gone = await asyncio.to_thread(
            self.stage.query,
            "with gone as (delete from sync.event as e using sync.stream as s where s.user_id = e.user_id"
            " and s.topic = e.topic and e.o <= s.top - %s returning e.*), kept as (insert into judge.gone"
            " select * from gone returning 1) select count(*) from kept", [self.dice.choice([5, 40])])
        self.ledger.counts["deleted events"] += gone[0][0]

    async def herd(self):
        """A bulk commit, more than a slow line holds."""
        person = self.dice.choice(self.people)
        await asyncio.to_thread(
            self.stage.query, "update care.dose_occurrence set note = coalesce(note, '') || '.', status = 'missed'"
            " where user_id = %s and local_date ="
            " (select min(local_date) from care.dose_occurrence where user_id = %s)",
            [person.user, person.user])
        self.ledger.counts["herds"] += 1


class Arrival(Judgement):
    """A storm's judgement, and more: each device shows what the server has, and missed nothing."""

    def judge(self):
        self.storm.stage.query("insert into sync.event select * from judge.gone")
        super().judge()

    def _sittings(self, connection, history, phone):
        told = {offset: (name, data) for offset, name, data in history.events}
        for offset, frame in phone.applied.items():
            if told.get(offset) != (frame.event, frame.data):
                self.fault(f"{phone.name}: applied {frame} where the log has {told.get(offset)}")
                return
        epoch = connection.execute(
            "select epoch from sync.positions(%s, %s)", [[phone.person.user], ["adherence"]]).fetchone()[0]
        if phone.follower.position != {"epoch": epoch, "offset": history.top}:
            self.fault(f"{phone.name}: at {phone.follower.position}, not at {epoch}, {history.top}")
            return
        rows = view.rows(connection, phone.person.user)
        for page in phone.pages:
            wanted, shown = view.on_page(rows, page.date), page.shown()
            wrong = [one for one in wanted.keys() | shown.keys() if wanted.get(one) != shown.get(one)]
            if wrong:
                self.fault(f"{phone.name}: shows {shown.get(wrong[0])}, and there is {wanted.get(wrong[0])}")


class Journey(Storm):
    """A storm with a bad network before the hub."""

    phone, judgement = RoamingPhone, Arrival
    proxy = None

    def _populate(self):
        self.stage.query("create schema if not exists judge")
        self.stage.query("create table if not exists judge.gone (like sync.event)")
        self.stage.query("truncate judge.gone")
        super()._populate()
        self.stage.query(
            "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
            " select u, 'zinc', now() - interval '20 days', now() from unnest(%s::text[]) as u, generate_series(1, %s)",
            [[person.user for person in self.people], HERD])
        for person in self.people:
            dates = [row[0] for row in self.stage.query(
                "select distinct local_date::text from care.dose_occurrence where user_id = %s order by 1",
                [person.user])]
            for phone in person.phones:
                phone.dates = phone.dice.sample(dates, min(self.plan.days, len(dates)))

    def _faults(self):
        return JourneyFaults(self)

    def _network(self):
        """What stands before the hubs."""
        return Proxy(*[hub.port for hub in self.stage.hubs], seed=self.seed, every=self.plan.every)

    async def _run(self, foreigners):
        self.proxy = self._network()
        meters = [Meters(hub) for hub in self.stage.hubs]
        beside = [asyncio.create_task(work) for work in (self.proxy.run(), self._grant(), self._look(meters))]
        try:
            await super()._run(foreigners)
            for one in meters:
                await asyncio.to_thread(one.look)
            self.ledger.counts.update(
                {name: sum(one.sum(counter) for one in meters) for name, counter in METERS.items()})
            if self.ledger.counts["hub: found behind"]:
                self.ledger.fault("the check of positions had to find what the tail had missed")
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
        self.ledger.counts.update({f"link: {name}": count for name, count in self.proxy.counts.items()})

    async def _look(self, meters):
        while True:
            for one in meters:
                await asyncio.to_thread(one.look)
            await asyncio.sleep(1)

    async def _grant(self):
        """People act now and then, until the faults end."""
        end = time.monotonic() + self.plan.seconds
        while time.monotonic() < end:
            self.dice.choice(self.phones).grant()
            await asyncio.sleep(self.dice.expovariate(self.plan.rate))
        await self.proxy.calm()

    def _is_calm(self):
        """Whether each phone is at its stream's position too: the epoch may change without another sign."""
        users = [person.user for person in self.people]
        positions = {user: {"epoch": epoch, "offset": top} for user, epoch, top in self.stage.query(
            "select user_id, epoch, top from sync.positions(%s, %s)", [users, ["adherence"] * len(users)])}
        return super()._is_calm() and all(
            phone.follower.position == positions[phone.person.user] for phone in self.phones)

    def report(self):
        memory = max(resident(hub.program.pid) >> 10 for hub in self.stage.hubs)
        return f"{super().report()}\n  memory of a hub         {memory:8} MiB"


def main():
    parser = argparse.ArgumentParser(description="A journey of many devices on a bad network.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--hubs", type=int, default=1)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    with Stage(arguments.hubs, SETTINGS) as stage:
        journey = Journey(stage, arguments.seed or new_seed(), Route.of(arguments.seconds, arguments.devices))
        print(journey.run(), flush=True)
        sys.exit(bool(journey.ledger.faults))


if __name__ == "__main__":
    main()
