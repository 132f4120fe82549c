"""What a device makes of its events: a snapshot of a user's doses, and the events folded over it."""

import collections
import datetime
import decimal

#: Names in events and columns of the table.
FIELDS = {
    "status": "status", "takenAt": "taken_at", "hasNote": "coalesce(note, '') <> ''", "rev": "rev",
    "productId": "product_id", "scheduledAt": "scheduled_at", "localDate": "local_date::text",
    "windowEnd": "window_end",
}
INSTANTS = ("takenAt", "scheduledAt", "windowEnd")
#: How long after its window a dose may still be taken.
GRACE = datetime.timedelta(minutes=30)


def rows(connection, user):
    """A user's doses by id, as events would tell them."""
    found = connection.execute(
        f"select id, {', '.join(FIELDS.values())} from care.dose_occurrence where user_id = %s", [user])
    return {identity: dict(zip(FIELDS, values)) for identity, *values in found}


def snapshot(hub, user):
    """The doses of a user and the stream's position, at one moment."""
    with hub.database(autocommit=False) as connection:
        connection.execute("set transaction isolation level repeatable read read only")
        top = connection.execute(
            "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'adherence'", [user])
        return rows(connection, user), top.fetchone()[0]


def is_over(dose, now):
    """Whether a dose is open, and too late to be taken in time."""
    return dose["status"] == "scheduled" and dose["windowEnd"] + GRACE <= now


def summary(doses, date):
    """A day's summary, from its doses alone. Their windows must have ended long ago, or end long hence."""
    now = datetime.datetime.now(datetime.timezone.utc)
    of_the_day = [dose for dose in doses.values() if dose["localDate"] == date and dose["status"] != "cancelled"]
    count = collections.Counter(dose["status"] for dose in of_the_day)
    overdue = sum(is_over(dose, now) for dose in of_the_day)
    due = count["taken"] + count["missed"] + count["made_up"] + overdue

    def percentage(part):
        if due == 0:
            return None
        exact = decimal.Decimal(100) * part / due
        return float(exact.quantize(decimal.Decimal("0.1"), decimal.ROUND_HALF_UP))

    return {
        "date": date, "scheduledCount": len(of_the_day), "takenCount": count["taken"], "missedCount": count["missed"],
        "madeUpCount": count["made_up"], "skippedCount": count["skipped"], "pendingCount": count["scheduled"],
        "adherencePct": percentage(count["taken"] + count["made_up"]), "onTimePct": percentage(count["taken"]),
    }


def dose(told):
    """A dose as events and snapshots tell it."""
    fields = {name: told[name] for name in FIELDS}
    return {**fields, **{name: fields[name] and datetime.datetime.fromisoformat(fields[name]) for name in INSTANTS}}


class View:
    """A device's doses and summaries, up to an event."""

    def __init__(self, doses):
        self.doses = dict(doses)
        self.summaries = {}
        #: What occurrence events said of days, until the summary itself comes.
        self._told = {}

    def apply(self, frame):
        """Takes the event that follows."""
        data = frame.data
        if frame.event == "adherence.summary_updated":
            date = data["date"]
            # A summary is exactly that of the doses as this stream has told them: no count of another moment.
            assert data["summary"] == summary(self.doses, date), f"not the summary of the doses at {frame}"
            told = self._told.pop(date, data["summary"])
            assert told == data["summary"], f"another summary than its events told: {frame}"
            self.summaries[date] = data["summary"]
            return
        updates = data["updates"]
        if "scheduledAt" in updates:
            self.doses[data["occurrenceId"]] = dose(updates)
        else:
            assert frame.event == "occurrence.cancelled", frame
            self.doses.pop(data["occurrenceId"], None)
        told = dict(data["daySummary"])
        assert told.pop("month") == told["date"][:7], frame
        self._told[told["date"]] = told


class Page(View):
    """One day, as `GET …/adherence/today?date=` showed it at an offset, and the events since."""

    def __init__(self, date, body, offset):
        super().__init__({told["id"]: dose(told) for told in body["occurrences"]})
        self.date = date
        self.at = offset
        stray = [one for one in self.doses.values() if one["localDate"] != date]
        assert not stray, f"doses of other days on the page of {date}: {stray[0]}"
        said = {name: body["summary"][name] for name in summary({}, date)}
        assert said == summary(self.doses, date), f"the page of {date} does not fit its summary: {said}"

    def apply(self, frame):
        """An event of the user's, on this day or not."""
        if frame.data["_sync"]["o"] > self.at:
            self.at = frame.data["_sync"]["o"]
            if frame.data.get("date", self.date) == self.date:
                super().apply(frame)

    def shown(self):
        """What is on the page."""
        return on_page(self.doses, self.date)


def on_page(doses, date):
    """Those of a user's doses that belong to a day. Cancelled ones are on no page."""
    return {identity: one for identity, one in doses.items()
            if one["localDate"] == date and one["status"] != "cancelled"}
