"""A storm: many phones of some people, all acting at once, while everything below them falls and comes back.

    Tests/ThirdParty/storm --minutes 10
"""

import argparse
import asyncio
import dataclasses
import datetime
import os
import random
import sys
import time
import zoneinfo

from action_source import ActionSource, Person
from foreign import Foreigner
from judgement import Judgement
from ledger import Ledger
from lines import LOST, Unanswered, in_time
from phone import Phone
from stage import Stage
from waiting import becomes
from faults import ServerFaults

#: How an action is asked again, of a hundred: 30 with the same payload, 10 with another.
HABITS = {None: 60, "twice": 8, "http": 7, "sibling": 7, "later": 8, "changed": 10}

#: What a storm waits for first.
ALL_DONE = "all is done"

#: Parts of user ids that channel names have to escape.
ODD = ("", "", ".b", "@example.org", "=é", " x/y", "", "", "", "")


@dataclasses.dataclass
class Plan:
    """The numbers of one storm."""

    users: int = 10
    phones: int = 5
    #: Actions that each phone makes up, besides the answers to conflicts.
    actions: int = 40
    kills: int = 10
    stops: int = 3
    #: Times that sessions of the hub are terminated in the database.
    terminations: int = 3
    #: Times that one of them stands still for seconds.
    freezes: int = 0
    writers: int = 3
    #: Seconds that such a writer may pause between two transactions.
    pause: float = 0.04
    #: How often phones that are restored from backups are, between two of their turns.
    restores: float = 0.03
    #: Seconds without any event while all calm down after the last action (I9), and without any verdict before that: then
    #: somebody waits in vain. The whole may take as long as the machine needs.
    calm: float = 30
    limit: float = 240


def new_seed():
    """`CARILLON_SEED` repeats a storm's choices; what overtakes what is the machine's."""
    return int(os.environ.get("CARILLON_SEED") or random.SystemRandom().randrange(1 << 32))


class Storm:
    """One storm on a stage, and the judgement over it. Several may follow each other on one stage, with other seeds."""

    #: What it is made of.
    phone, judgement = Phone, Judgement

    def __init__(self, stage, seed, plan=None):
        self.stage = stage
        self.seed = seed
        self.plan = plan or Plan()
        self.name = f"s{seed:x}"
        self.ledger = Ledger()
        self.dice = random.Random(seed)
        self.people = []
        self.phones = []
        self._tasks = set()
        self._tokens = {}
        self.seconds = 0

    def token(self, user):
        if user not in self._tokens:
            self._tokens[user] = self.stage.token(user)
        return self._tokens[user]

    # People and their phones.

    def _populate(self):
        # Nobody's midnight comes meanwhile.
        zones = [row[0] for row in self.stage.query(
            "select name from pg_timezone_names where name = any(%s) and name like '%%/%%' and name not like 'Etc/%%'"
            " and extract(hour from now() at time zone name) between 9 and 16 order by name",
            [list(zoneinfo.available_timezones())])]
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        hour = datetime.timedelta(hours=1)
        # Windows ended, or are open, or begin later: none ends meanwhile. Of those that ended, half did so just now: the
        # hub leaves them open for half an hour, longer than any storm. The others did long ago: the hub misses them at
        # once, and whenever somebody opens them again.
        ended = [now - day * 24 * hour - part * hour for day in range(9) for part in (6, 8)][1:]
        starts = ended + [now - hour, now - 2 * hour, now + 2 * hour, now - 24 * 12 * hour]
        ends = [now if index % 2 else None for index in range(len(ended))] + [None] * 4
        with self.stage.database() as connection:
            for number in range(self.plan.users):
                person = Person(f"{self.name}.{number}{ODD[number % len(ODD)]}", self.dice.choice(zones),
                                f"canary-{self.dice.randrange(1 << 60):015x}")
                connection.execute("insert into care.user_settings (user_id, zone) values (%s, %s)",
                                   [person.user, person.zone])
                product = f"{self.name}.{number}.zinc"
                connection.execute("insert into care.product (id, user_id, name) values (%s, %s, %s)",
                                   [product, person.user, f"zinc of {person.canary}"])
                rows = connection.execute(
                    "insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_end)"
                    " select %s || '-' || n, %s, %s, s, e"
                    " from unnest(%s::timestamptz[], %s::timestamptz[]) with ordinality as t(s, e, n)"
                    " returning id, scheduled_at, window_end",
                    [f"{self.name}.{number}", person.user, product, starts, ends]).fetchall()
                person.doses = {identity: rest for identity, *rest in rows}
                self.people.append(person)
        for number, person in enumerate(self.people):
            person.stranger = self.people[(number + 1) % len(self.people)]
            for _ in range(self.plan.phones):
                index = len(self.phones)
                dice = random.Random(f"{self.seed}/phone/{index}")
                source = ActionSource(person, f"{self.name}.{index}", dice)
                phone = self.phone(self, person, index, dice, source, self.plan.actions)
                person.phones.append(phone)
                self.phones.append(phone)

    # What phones ask of it.

    def overheard(self, person, text):
        """I7: no byte of anybody else's."""
        if text.count("canary-") != text.count(person.canary):
            self.ledger.fault(f"{person.user} received what is another user's: {text}")

    def habit(self, phone):
        return phone.dice.choices(list(HABITS), HABITS.values())[0]

    def verdict(self, phone, action, answer):
        """The first verdict of an action: a conflict is resolved, mostly."""
        result = answer.get("result") or {}
        items = result.get("items", []) if answer["status"] == "partial" or "counts" in result else []
        is_pending = answer["status"] == "conflict" or any(item["status"] == "conflict" for item in items)
        if not is_pending or action.round > 3 or not action.round and phone.dice.random() < 0.15:
            return
        conflict = answer.get("conflict")
        resolvers = [phone]
        if phone.dice.random() < 0.15:
            resolvers.append(phone.dice.choice(phone.person.phones))
        for one in resolvers:
            one.enqueue(one.source.resolution(action.key, conflict, not items, action.round + 1))

    def repeat_elsewhere(self, phone, action, is_first):
        """Sends the request by another way at that moment, as far as this action is asked that way."""
        sibling = phone.dice.choice(phone.person.phones)
        if action.habit == "http" or action.habit == "twice" and phone.shape != "socket":
            work = phone.http.act(action.envelope(phone.name))
        elif action.habit == "sibling" and sibling.socket and sibling is not phone:
            # Another device that sends it as its own asks for no order; only what is next may be taken that way.
            is_own = is_first and not phone.is_steady and phone.dice.random() < 0.5
            work = self._by(sibling, action.envelope(sibling.name if is_own else phone.name, in_order=not is_own))
        else:
            return
        action.habit = None
        self.ledger.counts["repeated"] += 1

        async def repeat():
            try:
                phone.heard(action, await work)
            except LOST:
                pass
            except Unanswered as error:
                self.ledger.fault(f"{phone.name}: no good answer to a repeat: {error}")

        self.later(repeat())

    def later(self, work):
        """Does something beside all else. The storm is not over before it is done."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _by(self, phone, envelope):
        if phone.socket is None:
            raise EOFError("it has just lost its line")
        return await in_time(await phone.socket.send(envelope), envelope["key"])

    # The storm.

    def run(self):
        """Returns the report; faults are in it, and in `ledger.faults`."""
        started = time.monotonic()
        self._populate()
        foreigners = [Foreigner(self.stage, self.people, f"w{number}", self.seed, self.plan.pause)
                      for number in range(self.plan.writers)]
        try:
            asyncio.run(self._run(foreigners))
        except BaseException as error:
            error.add_note(f"CARILLON_SEED={self.seed}")
            raise
        finally:
            for foreigner in foreigners:
                foreigner.stop()
        self.ledger.counts["foreign transactions"] = sum(foreigner.done for foreigner in foreigners)
        self.seconds = time.monotonic() - started
        self.judgement(self).judge()
        return self.report()

    async def _run(self, foreigners):
        for foreigner in foreigners:
            foreigner.start()
        faults = self._faults()
        lives = [asyncio.create_task(phone.live()) for phone in self.phones]
        falling = asyncio.create_task(faults.run())
        try:
            await self._until(lambda: falling.done() and self._is_drained(), self.plan.limit, lives + [falling],
                              ALL_DONE)
            for foreigner in foreigners:
                foreigner.stop()
            for foreigner in foreigners:
                await asyncio.to_thread(foreigner.join, 30)
                if foreigner.failure or foreigner.is_alive():
                    self.ledger.fault(f"a foreign writer failed: {foreigner.failure!r}")
            calm = time.monotonic()
            await self._until(self._is_calm, self.plan.calm, lives, "every device is where its stream is")
            self.ledger.counts["milliseconds to calm"] = round(1000 * (time.monotonic() - calm))
        finally:
            for task in [falling, *lives, *self._tasks]:
                task.cancel()
            await asyncio.wait([falling, *lives, *self._tasks])

    def _faults(self):
        return ServerFaults(self.stage, self.ledger, self.plan, len(self.phones) * self.plan.actions, self.seed)

    async def _until(self, condition, patience, tasks, what):
        """Waits as long as something moves: a busy machine may be as slow as it likes."""
        def is_over():
            for task in tasks:
                if task.done() and task.exception():
                    raise task.exception()
            return condition() or len(self.ledger.faults) > 20

        moves = True
        while moves and not is_over():
            seen = self._progress(what)
            moves = await becomes(lambda: is_over() or self._progress(what) != seen, patience)
        if not condition():
            self.ledger.fault(f"nothing moved for {patience} s: {what}; {self._state()}")

    def _progress(self, what):
        """Changes as long as something comes true. While foreign writers go on, events say nothing of that."""
        return self.ledger.answered if what == ALL_DONE else self.ledger.counts["events"]

    def _is_drained(self):
        return not self._tasks and all(phone.is_idle for phone in self.phones)

    def _tops(self):
        return dict(self.stage.query("select user_id, top from sync.stream where topic = 'adherence'"))

    def _is_calm(self):
        # What the hubs have still to miss would come after the devices were found at their streams' tops.
        if self.stage.query("select 1 from care.dose_occurrence where status = 'scheduled'"
                            " and window_end + care.grace() <= now() and user_id = any(%s) limit 1",
                            [[person.user for person in self.people]]):
            return False
        tops = self._tops()
        return all(phone.offset == tops[phone.person.user] for phone in self.phones)

    def _state(self):
        waiting = self.ledger.unanswered()
        behind = [phone.name for phone in self.phones if phone.queue]
        return (f"{len(waiting)} actions without a verdict, such as {[entry.action.key for entry in waiting[:3]]};"
                f" phones with a queue: {behind[:5]}; hubs running: {[hub.is_running for hub in self.stage.hubs]}")

    def report(self):
        counts = self.ledger.counts
        lines = [f"storm of {len(self.phones)} devices of {len(self.people)} users, {self.seconds:.1f} s,"
                 f" CARILLON_SEED={self.seed}"]
        lines += [f"  {name:24}{counts[name]:8}" for name in sorted(counts)]
        lines += [f"  faults                  {len(self.ledger.faults):8}", *self.ledger.faults[:12]]
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Storms over a hub, one after the other.")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--actions", type=int, default=Plan.actions)
    parser.add_argument("--kills", type=int, default=Plan.kills)
    parser.add_argument("--stops", type=int, default=Plan.stops)
    parser.add_argument("--users", type=int, default=Plan.users)
    parser.add_argument("--phones", type=int, default=Plan.phones)
    parser.add_argument("--hubs", type=int, default=1)
    parser.add_argument("--freezes", type=int, default=3)
    arguments = parser.parse_args()
    plan = Plan(arguments.users, arguments.phones, arguments.actions, arguments.kills, arguments.stops,
                freezes=arguments.freezes)
    end = time.monotonic() + 60 * arguments.minutes
    seed = new_seed()
    with Stage(arguments.hubs) as stage:
        while True:
            storm = Storm(stage, seed, plan)
            print(storm.run(), flush=True)
            if storm.ledger.faults:
                sys.exit(1)
            if time.monotonic() > end:
                return
            seed += 1


if __name__ == "__main__":
    main()
