"""A user's history as the hub's tables tell it: the events in order, and the actions stored."""

import collections
import datetime
import json


class Change:
    """An occurrence event, with the state of its dose before it."""

    def __init__(self, offset, identity, key, before, after, name):
        self.offset = offset
        self.identity = identity
        self.key = key
        #: `updates` of the event before; None where there was none.
        self.before = before
        self.after = after
        self.name = name

    def same(self, *fields):
        return self.before is not None and all(self.before.get(name) == self.after.get(name) for name in fields)

    def __repr__(self):
        def short(state):
            return state and {name: state.get(name) for name in ("status", "takenAt", "rev")}

        return f"{self.identity} at {self.offset}: {short(self.before)} -> {short(self.after)}"


class Row:
    """A row of `sync.action`."""

    COLUMNS = ("key", "device_id", "n", "type", "status", "answer", "undone_by", "resolved_by", "created_at")

    def __init__(self, values):
        (self.key, self.device, self.n, self.type, self.status, self.answer, self.undone_by, self.resolved_by,
         self.created_at) = values


class History:
    """All of one user."""

    def __init__(self, connection, user):
        self.user = user
        self.events = connection.execute(
            "select o, name, data from sync.event where user_id = %s and topic = 'adherence' order by o",
            [user]).fetchall()
        self.top = connection.execute(
            "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'adherence'",
            [user]).fetchone()[0]
        self.rows = {}
        #: Keys with more than one row; there is no such thing.
        self.doubled = []
        for values in connection.execute(
                f"select {', '.join(Row.COLUMNS)} from sync.action where user_id = %s order by created_at", [user]):
            row = Row(values)
            if row.key in self.rows:
                self.doubled.append(row.key)
            self.rows[row.key] = row
        self.last_numbers = dict(connection.execute(
            "select device_id, last_n from sync.device where user_id = %s", [user]).fetchall())
        self.notes = connection.execute(
            "select occurrence_id, key, text from care.dose_note where user_id = %s", [user]).fetchall()
        self.dose_ids = {row[0] for row in connection.execute(
            "select id from care.dose_occurrence where user_id = %s", [user])}
        self.changes = self._changes()
        #: By key, the changes that it made, and the dates whose summaries it announced.
        self.by_key = collections.defaultdict(list)
        self.summaries_by_key = collections.defaultdict(list)
        self.last_offset = {}
        for change in self.changes:
            if change.key is not None:
                self.by_key[change.key].append(change)
        for offset, name, data in self.events:
            key = data["_sync"]["k"]
            if key is not None:
                self.last_offset[key] = offset
                if name == "adherence.summary_updated":
                    self.summaries_by_key[key].append(data["date"])

    def _changes(self):
        states, changes = {}, []
        for offset, name, data in self.events:
            if name == "adherence.summary_updated":
                continue
            identity = data["occurrenceId"]
            changes.append(Change(offset, identity, data["_sync"]["k"], states.get(identity), data["updates"], name))
            states[identity] = data["updates"]
        return changes


def instant(value):
    """A time of a payload, as an instant: epoch milliseconds or ISO 8601 with an offset."""
    if isinstance(value, int):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.timezone.utc)
    return datetime.datetime.fromisoformat(value)


def texts(value):
    """All JSON of a value, for looking into."""
    return json.dumps(value, ensure_ascii=False, default=str)
