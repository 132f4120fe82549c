"""Histories of client libraries: devices are killed at any write, on a bad network, while all below them falls."""

import asyncio
import dataclasses

import days
from faults import ServerFaults
from history import History
from judgement import Judgement
from names import stream
from stage import Stage
from storm import Plan, Storm, new_seed

#: Types of actions on doses.
DOSES = ("markTaken", "markMissed", "makeUp", "skip", "addNote", "undo", "bulkMarkAll", "resolve")

#: What a day's summary tells, of what is stored.
COUNTS = ("scheduledCount", "takenCount", "missedCount", "madeUpCount", "skippedCount", "pendingCount", "adherencePct",
          "onTimePct")

#: A hub that finds half-open lines soon.
SETTINGS = {"CARILLON_ACTIVITY_TIMEOUT": "10s", "CARILLON_PONG_TIMEOUT": "5s"}


@dataclasses.dataclass
class Histories(Plan):
    """The numbers of one storm: each person is a history."""

    users: int = 8
    phones: int = 2
    actions: int = 12
    kills: int = 2
    stops: int = 1
    terminations: int = 1
    writers: int = 1
    pause: float = 0.3
    calm: float = 60
    limit: float = 240
    #: Mean seconds between two faults of a line.
    every: float = 4


class LibraryFaults(ServerFaults):
    """Moments are numbers of acts."""

    def __init__(self, storm, *arguments):
        super().__init__(storm.stage, storm.ledger, storm.plan, *arguments)
        self.storm = storm

    async def _reached(self, moment):
        while self.storm.acted < moment:
            await asyncio.sleep(0.05)


class LibraryJudgement(Judgement):
    """I1 to I3 and I5 to I8 over the rows; I4 and I9 were judged while the devices lived."""

    def judge(self):
        with self.storm.stage.database() as connection:
            for person in self.storm.people:
                history = History(connection, person.user)
                self._check(self._kept, history, person)
                self._check(self._stream, history)
                # The rest is about doses.
                every = history.rows
                history.rows = {key: row for key, row in every.items() if self._is_of_doses(key, row)}
                for check in (self._events_of_keys, self._transitions, self._notes):
                    self._check(check, history)
                history.rows = every
                self._check(self._days, connection, person)
                for phone in person.phones:
                    for device in phone.devices:
                        self._check(self._numbers, history, phone, device)
                    if phone.position and phone.position.get(stream(person.user)) != history.top:
                        self.fault(f"{phone.name}: its position is {phone.position}, and the stream's {history.top}")

    def _is_of_doses(self, key, row):
        # One that nobody asked for is a fault already.
        if row.type not in DOSES or key not in self.ledger.entries:
            return False
        payload = self.ledger.entries[key].action.payload
        target = self.ledger.entries.get(payload.get("of") or payload.get("targetKey"))
        return target is None or not target.action.type.endswith("Reminder")

    def _kept(self, history, person):
        """I1: what a device kept is stored, once, as the device was told; and nothing else is stored."""
        if history.doubled:
            self.fault(f"{history.user}: several rows of {history.doubled}")
        for key in history.rows:
            if key not in self.ledger.entries:
                self.fault(f"{history.user}: stored, and never asked for: {key}")
        for phone in person.phones:
            for key in phone.mine:
                row, kept = history.rows.get(key), phone.rows.get(key)
                if row is None and key not in phone.cancelled:
                    kind = self.ledger.entries[key].action.type
                    self.fault(f"{phone.name}: kept, and never stored: {key}, {kind}, {kept}")
                elif kept in ("queued", "sent", "parked"):
                    self.fault(f"{phone.name}: {key} is still {kept}")
                elif kept == "done" and row.status not in ("applied", "noop", "partial", "conflict"):
                    self.fault(f"{phone.name}: {key} is done here, and {row.status} there")
                elif row and row.type != self.ledger.entries[key].action.type:
                    self.fault(f"{key}: stored as {row.type}")

    def _numbers(self, history, phone, device):
        """I6: numbers without a hole, stored and announced in their order."""
        mine = {row.n: row for row in history.rows.values() if row.device == device and row.n is not None}
        last = history.last_numbers.get(device, 0)
        if sorted(mine) != list(range(1, last + 1)):
            self.fault(f"{phone.name}: numbers {sorted(mine)[-3:]}, and the last is {last}")
        in_order = [mine[number] for number in sorted(mine)]
        if any(one.created_at > other.created_at for one, other in zip(in_order, in_order[1:])):
            self.fault(f"{phone.name}: not stored in the order of its numbers")
        offsets = [history.last_offset[row.key] for row in in_order if row.key in history.last_offset]
        if offsets != sorted(offsets):
            self.fault(f"{phone.name}: its events are not in the order of its numbers")


class LibraryStorm(Storm):
    """A storm of devices of a library; `phone` makes one. `acted` counts their acts."""

    judgement, faults, histories = LibraryJudgement, LibraryFaults, Histories

    def __init__(self, stage, seed, plan=None):
        super().__init__(stage, seed, plan or self.histories())
        self.acted = 0

    def _populate(self):
        super()._populate()
        # All fight over the doses of one day, and one of another.
        for person in self.people:
            today = {row[0] for row in self.stage.query(
                "select id from care.dose_occurrence where user_id = %s"
                " and local_date = (now() at time zone %s)::date", [person.user, person.zone])}
            old = next(one for one in person.doses if one not in today)
            person.doses = {one: rest for one, rest in person.doses.items() if one in today or one == old}

    async def _run(self, foreigners):
        serving = [asyncio.create_task(phone.proxy.run()) for phone in self.phones]
        try:
            await super()._run(foreigners)
        finally:
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)
            for phone in self.phones:
                for fault, count in phone.proxy.counts.items():
                    self.ledger.counts[f"line: {fault}"] += count

    def _faults(self):
        return self.faults(self, len(self.phones) * self.plan.actions, self.seed)

    def _is_drained(self):
        if any(phone.budget for phone in self.phones):
            return False
        for phone in self.phones:
            if phone.proxy.every is not None:
                phone.proxy.every = None
                self.later(phone.proxy.calm())
        return not self._tasks and all(phone.is_idle for phone in self.phones)

    def _is_calm(self):
        # What the hub has still to miss would come after.
        return not self.stage.query(
            "select 1 from care.dose_occurrence where status = 'scheduled' and window_end + care.grace() <= now()"
            " and user_id = any(%s) limit 1", [[person.user for person in self.people]]) and not self._differences()

    def _differences(self):
        """I4: how what devices show differs from what the tables have."""
        found = []
        tops = self._tops()
        with self.stage.database() as connection:
            for person in self.people:
                channel, top = stream(person.user), tops.get(person.user, 0)
                rows = connection.execute(
                    "select id, status, rev, note, extract(epoch from taken_at)::float8 from care.dose_occurrence"
                    " where user_id = %s and local_date = (now() at time zone %s)::date and status <> 'cancelled'",
                    [person.user, person.zone]).fetchall()
                doses = {identity: (status, rev, note, taken and round(taken, 3))
                         for identity, status, rev, note, taken in rows}
                rules = {identity: (rev, time, label, enabled) for identity, rev, time, label, enabled in connection.execute(
                    "select id, rev, to_char(time, 'HH24:MI'), label, enabled from care.reminder_rule where user_id = %s",
                    [person.user])}
                stored = days.stored(connection, person.user)
                for phone in person.phones:
                    if not phone.screens:
                        found.append(f"{phone.name} is not there")
                    for screen in phone.screens:
                        found += self._difference(screen.name, screen.shown, doses, rules, stored)
                        if screen.positions and screen.positions.get(channel) != top:
                            found.append(f"{screen.name} is at {screen.positions}, and the stream at {top}")
        return found

    @staticmethod
    def _difference(name, shown, doses, rules, stored):
        mine = {one["id"]: (one["status"], one["rev"], one["note"], one["takenAt"] and round(one["takenAt"], 3))
                for one in shown["doses"]}
        if mine != doses:
            wrong = next(one for one in mine.keys() | doses.keys() if mine.get(one) != doses.get(one))
            return [f"{name} shows {wrong} as {mine.get(wrong)}, and there is {doses.get(wrong)}"]
        if any(one["isPending"] for one in shown["doses"] + shown["rules"]):
            return [f"{name} shows something as pending"]
        own = {one["id"]: (one["rev"], one["time"], one["label"], one["enabled"]) for one in shown["rules"]}
        if own != rules:
            wrong = next(one for one in own.keys() | rules.keys() if own.get(one) != rules.get(one))
            return [f"{name} shows rule {wrong} as {own.get(wrong)}, and there is {rules.get(wrong)}"]
        day = stored.get(shown["date"])
        counts = {one: shown["summary"][one] for one in COUNTS}
        if day is not None and counts != {one: day[one] for one in COUNTS}:
            return [f"{name} counts {counts}, and stored is {day}"]
        return []

    def _state(self):
        standing = [f"{phone.name}: {phone.budget} left, {[screen.standing for screen in phone.screens]}"
                    for phone in self.phones if not phone.is_idle]
        return f"differences: {self._differences()[:3]}; {standing[:4]}"


def run_histories(storms, count, most):
    """Storm after storm of at most so many histories, each with its seed; returns what there is to tell."""
    seed, done, report = new_seed(), 0, None
    with Stage(settings=SETTINGS) as stage:
        while done < count:
            storm = storms(stage, seed + done, storms.histories(users=min(most, count - done)))
            report = storm.run()
            assert not storm.ledger.faults, report
            assert storm.ledger.counts["deaths"], report
            done += storm.plan.users
            if count > most:
                print(report, flush=True)
    return f"{done} histories; the last:\n{report}"
