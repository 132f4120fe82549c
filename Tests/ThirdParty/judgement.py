"""What must hold when a storm is over: I1 to I9 of the design's reference, from outside, over rows and devices."""

import collections
import traceback

import days
import view
from history import History, instant, texts
from ledger import FORGED, alike

#: Which status an action may turn into which.
ALLOWED = {
    "markTaken": {"scheduled": "taken", "missed": "taken"},
    "bulkMarkAll": {"scheduled": "taken", "missed": "taken"},
    "markMissed": {"scheduled": "missed"},
    "makeUp": {"scheduled": "made_up", "missed": "made_up"},
    "skip": {"scheduled": "skipped", "missed": "skipped"},
    "addNote": {},
}

#: Statuses with an instant of taking.
TAKEN = ("taken", "made_up")


class Judgement:
    """Adds faults to the storm's ledger; never raises for one."""

    def __init__(self, storm):
        self.storm = storm
        self.ledger = storm.ledger

    def fault(self, text):
        self.ledger.fault(text)

    def judge(self):
        for entry in self.ledger.unanswered():
            self.fault(f"lost: {entry.action.key} of {entry.phone.name} never got its verdict")
        with self.storm.stage.database() as connection:
            histories = {person.user: History(connection, person.user) for person in self.storm.people}
            for person in self.storm.people:
                history = histories[person.user]
                self._check(self._stream, history)
                self._check(self._rows, history, person)
                self._check(self._events_of_keys, history)
                self._check(self._transitions, history)
                self._check(self._notes, history)
                self._check(self._days, connection, person)
                for phone in person.phones:
                    self._check(self._order, history, phone)
                    self._check(self._sittings, connection, history, phone)
        stray = self.storm.stage.query(
            "select key, count(*) from sync.action where key like %s group by key having count(*) > 1",
            [f"{self.storm.name}.%"])
        if stray:
            self.fault(f"keys with several rows: {stray}")

    def _check(self, check, *subjects):
        """Runs a check. If the hub is wrong, there may be nothing to look at."""
        try:
            check(*subjects)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.fault(f"{check.__name__} cannot go on: {error!r} in {traceback.format_tb(error.__traceback__)[-1]}")

    # I3: streams without a hole.

    def _stream(self, history):
        offsets = [offset for offset, *_ in history.events]
        if offsets != list(range(1, history.top + 1)):
            self.fault(f"{history.user}: the stream is not 1 to {history.top}")
        answers = [row.answer for row in history.rows.values()]
        if FORGED in texts(history.events) + texts(answers) + texts(history.notes):
            self.fault(f"{history.user}: a forged payload left its trace")

    # I1: what was answered is stored, and what is stored was asked.

    def _rows(self, history, person):
        if history.doubled:
            self.fault(f"{history.user}: several rows of {history.doubled}")
        names = {phone.name for phone in person.phones}
        for key, entry in self.ledger.entries.items():
            if entry.phone.name not in names or entry.verdict is None:
                continue
            row = history.rows.get(key)
            if row is None:
                self.fault(f"answered, and not stored: {entry.verdict}")
            elif row.status != entry.verdict["status"] or not alike(row.answer, entry.verdict):
                self.fault(f"stored otherwise than answered: {row.status} {row.answer}; {entry.verdict}")
        for key, row in history.rows.items():
            entry = self.ledger.entries.get(key)
            if entry is None or entry.phone.name not in names:
                self.fault(f"{history.user}: stored, and never asked for: {key}")
            elif row.type != entry.action.type:
                self.fault(f"{key}: stored as {row.type}, asked as {entry.action.type}")

    # I2: exactly the events of one execution.

    def _events_of_keys(self, history):
        for key in set(history.by_key) | set(history.summaries_by_key):
            row = history.rows.get(key)
            if row is None or row.status not in ("applied", "partial"):
                self.fault(f"{history.user}: events of {key}, which is {row and row.status}")
                continue
            ids = [change.identity for change in history.by_key[key]]
            if len(set(ids)) != len(ids):
                self.fault(f"{key}: a dose changed twice by one action: {history.by_key[key]}")
            dates = history.summaries_by_key[key]
            if not dates or len(set(dates)) != len(dates):
                self.fault(f"{key}: summaries of {dates}")
            position = next(iter(row.answer["positions"].values()))
            if position["offset"] != history.last_offset[key]:
                self.fault(f"{key}: its last event is {history.last_offset[key]}, and it was told {position}")
        # A resolve may bring the note that is shown already: one more of the set, and no event; and an undo may have taken
        # it away again, shown or not.
        noted = {key for _, key, _ in history.notes if key in history.rows and history.rows[key].type == "resolve"}
        noted |= {key for key, row in history.rows.items() if row.type == "resolve" and row.undone_by is not None}
        # And an undo may take one of the set that is not shown.
        noted |= {key for key, row in history.rows.items() if row.type == "undo" and self._brings_note(
            self.ledger.entries[key].action.payload.get("targetKey"))}
        # Nor is there one where the dose that it answered with had been announced before, to the revision: of two equal
        # notes an undo takes either.
        noted |= {key for key, row in history.rows.items() if row.type == "resolve" and self._was_announced(row, history)}
        for key, row in history.rows.items():
            if row.status == "applied" and not history.by_key[key] and key not in noted:
                self.fault(f"{key}: {row.type} was applied without any event: {row.answer}")
            told = _doses_told(row.answer, "applied")
            for change in history.by_key[key]:
                dose = told.get(change.identity)
                if dose is None or dose["rev"] != change.after["rev"] or dose["status"] != change.after["status"]:
                    self.fault(f"{key}: the answer tells {dose} of {change}")

    @staticmethod
    def _was_announced(row, history):
        dose = row.answer.get("result") or {}
        if not dose.get("note") or row.status != "applied":
            return False
        top = next(iter(row.answer["positions"].values()))["offset"]
        return any(change.identity == dose["id"] and change.after.get("rev") == dose["rev"] and change.offset <= top
                   for change in history.changes)

    def _brings_note(self, key):
        entry = self.ledger.entries.get(key)
        return entry is not None and (entry.action.type == "resolve" or not {"note", "text"}.isdisjoint(
            entry.action.payload))

    # I5, in part: each change is one that its action may make. The whole of it is the differential test's.

    def _transitions(self, history):
        for key, changes in history.by_key.items():
            row = history.rows.get(key)
            if row is None:
                continue
            for change in changes:
                if change.before is None or change.after["rev"] <= change.before["rev"]:
                    self.fault(f"{key}: no new revision: {change}")
                elif row.type in ALLOWED:
                    self._transition(row, change)
                elif row.type == "resolve" and self.ledger.entries[key].action.payload["choice"] == "accept_server":
                    self.fault(f"{key}: accepted what the server has, and yet {change}")
                elif row.type == "undo":
                    self._undone(history, row, change)

    def _transition(self, row, change):
        payload = self.ledger.entries[row.key].action.payload
        if change.same("status", "takenAt"):
            if not any(name in payload for name in ("note", "text")):
                self.fault(f"{row.key}: {row.type} changed nothing that it may: {change}")
            return
        status = ALLOWED[row.type].get(change.before["status"])
        if status is None or change.after["status"] != status:
            self.fault(f"{row.key}: {row.type} may not do {change}")
        elif (change.after["takenAt"] is not None) != (status in TAKEN):
            self.fault(f"{row.key}: a time that does not fit: {change}")
        asked = payload.get("takenAt", payload.get("at"))
        if asked is not None and status in TAKEN and instant(change.after["takenAt"]) != instant(asked):
            self.fault(f"{row.key}: asked for {asked}: {change}")

    def _undone(self, history, row, change):
        target = self.ledger.entries[row.key].action.payload["targetKey"]
        done = next((one for one in history.by_key[target] if one.identity == change.identity), None)
        if done is None:
            self.fault(f"{row.key}: undid what {target} never did: {change}")
        elif not done.same("status", "takenAt") and change.after["status"] != done.before["status"]:
            self.fault(f"{row.key}: not as before {target}: {change}; {done}")
        elif not done.same("status", "takenAt") and change.after["takenAt"] != done.before["takenAt"]:
            self.fault(f"{row.key}: not when it was before {target}: {change}; {done}")
        if history.rows[target].undone_by != row.key:
            self.fault(f"{row.key}: undid {target}, which says {history.rows[target].undone_by}")

    # I2: a note is there once, by the action that brought it.

    def _notes(self, history):
        # A resolve may bring back the note that an undo would have.
        resolves = {key for key, row in history.rows.items() if row.type == "resolve"}
        count = collections.Counter(text for _, key, text in history.notes if key not in resolves)
        for text, times in count.items():
            if times != 1:
                self.fault(f"{history.user}: {times} notes {text!r}")
        by_key = {}
        for identity, key, text in history.notes:
            by_key[key, identity] = text
            row = history.rows.get(key)
            if row is None or row.status not in ("applied", "partial"):
                self.fault(f"a note of {key}, which is {row and row.status}")
            elif row.type != "resolve" and text not in self.ledger.entries[key].action.payload.values():
                self.fault(f"{key}: a note that it did not bring: {text!r}")
        for key, row in history.rows.items():
            if row.type not in ALLOWED or row.type == "bulkMarkAll" or row.status != "applied" or row.undone_by:
                continue
            payload = self.ledger.entries[key].action.payload
            text = payload.get("text", payload.get("note"))
            identity = payload["occurrenceId"]
            if text is not None and identity in history.dose_ids and by_key.get((key, identity)) != text:
                self.fault(f"{key}: its note is not there: {text!r}, but {by_key.get((key, identity))!r}")

    # I6: each device's order.

    def _order(self, history, phone):
        mine = {row.n: row for row in history.rows.values() if row.device == phone.name and row.n is not None}
        last = history.last_numbers.get(phone.name, 0)
        if sorted(mine) != list(range(1, last + 1)):
            self.fault(f"{phone.name}: numbers {sorted(mine)[-3:]}, and the last is {last}")
        # A phone that numbers anew may be overtaken by what it had sent before.
        keys = [action.key for action in phone.order]
        if phone.is_steady and [row.key for _, row in sorted(mine.items())] != keys:
            self.fault(f"{phone.name}: not in the order of its queue: {keys}, {sorted(mine.items())}")
        in_order = [mine[number] for number in sorted(mine)]
        if any(one.created_at > other.created_at for one, other in zip(in_order, in_order[1:])):
            self.fault(f"{phone.name}: not stored in the order of its numbers")
        offsets = [history.last_offset[row.key] for row in in_order if row.key in history.last_offset]
        if offsets != sorted(offsets):
            self.fault(f"{phone.name}: its events are not in the order of its numbers")

    # I4: each device has what the server has.

    def _sittings(self, connection, history, phone):
        told = {offset: (name, data) for offset, name, data in history.events}
        for number, sitting in enumerate(phone.sittings):
            is_last = number == len(phone.sittings) - 1
            for offset, frame in enumerate(sitting.frames, sitting.start + 1):
                if told.get(offset) != (frame.event, frame.data):
                    self.fault(f"{phone.name}: heard {frame} where the log has {told.get(offset)}")
                    return
            if sitting.snapshot is None:
                if is_last:
                    self.fault(f"{phone.name}: never got its snapshot")
                continue
            doses, position = sitting.snapshot
            shown = view.View(doses)
            try:
                for frame in sitting.frames:
                    if frame.data["_sync"]["o"] > position:
                        shown.apply(frame)
            except AssertionError as error:
                self.fault(f"{phone.name}: {error}")
                return
            if is_last:
                rows = view.rows(connection, phone.person.user)
                if sitting.offset != history.top:
                    self.fault(f"{phone.name}: at {sitting.offset} of {history.top}")
                elif shown.doses != rows:
                    wrong = [one for one in rows.keys() | shown.doses.keys() if rows.get(one) != shown.doses.get(one)]
                    self.fault(f"{phone.name}: shows {shown.doses.get(wrong[0])}, and there is {rows.get(wrong[0])}")

    # I8: summaries, streaks, statistics.

    def _days(self, connection, person):
        doses = view.rows(connection, person.user)
        stored = days.stored(connection, person.user)
        wanted = days.recomputed(doses)
        if stored != wanted:
            wrong = [date for date in sorted(stored.keys() | wanted.keys()) if stored.get(date) != wanted.get(date)]
            self.fault(f"{person.user} on {wrong[0]}: stored {stored.get(wrong[0])}, not {wanted.get(wrong[0])}")
        told, mine = days.statistics(connection, person.user), days.figures(wanted, doses, person.zone)
        if any(told.get(name) != value for name, value in mine.items()):
            self.fault(f"{person.user}: statistics {told}, not {mine}")


def _doses_told(answer, status):
    """The doses that an answer shows as changed, by id."""
    result = answer.get("result") or {}
    if "items" in result:
        return {item["occurrenceId"]: item["occurrence"] for item in result["items"]
                if item["status"] == status and "occurrence" in item}
    return {result["id"]: result} if "id" in result else {}
