"""Days, streaks and statistics, computed a second time from the doses alone."""

import datetime
import decimal
import zoneinfo

import view

#: Columns of `care.day_summary`, by the names that events give them, and the two that streaks are read from.
COLUMNS = {
    "scheduledCount": "scheduled_count", "takenCount": "taken_count", "missedCount": "missed_count",
    "madeUpCount": "made_up_count", "skippedCount": "skipped_count", "pendingCount": "pending_count",
    "adherencePct": "adherence_pct::float", "onTimePct": "on_time_pct::float", "run": "run", "best": "best",
}


def stored(connection, user):
    """What the flush has written, by date."""
    found = connection.execute(
        f"select date::text, {', '.join(COLUMNS.values())} from care.day_summary where user_id = %s", [user])
    return {date: dict(zip(COLUMNS, values)) for date, *values in found}


def is_perfect(day):
    return day["missedCount"] == day["pendingCount"] == 0 < day["takenCount"] + day["madeUpCount"]


def is_neutral(day):
    return day["takenCount"] + day["missedCount"] + day["madeUpCount"] + day["pendingCount"] == 0


def recomputed(doses):
    """What should have been written, by date."""
    wanted, run, best = {}, 0, 0
    for date in sorted({dose["localDate"] for dose in doses.values()}):
        day = view.summary(doses, date)
        del day["date"]
        if is_perfect(day):
            run += 1
        elif not is_neutral(day):
            run = 0
        best = max(best, run)
        wanted[date] = {**day, "run": run, "best": best}
    return wanted


def statistics(connection, user):
    return connection.execute("select care.stats(%s)", [user]).fetchone()[0]


def _half_up(value):
    return float(value.quantize(decimal.Decimal("0.1"), decimal.ROUND_HALF_UP))


def figures(summaries, doses, zone):
    """The statistics of a user as of now; windows must have ended long ago, or end long hence."""
    now = datetime.datetime.now(datetime.timezone.utc)
    today = now.astimezone(zoneinfo.ZoneInfo(zone)).date()
    first = today - datetime.timedelta(days=30)

    def overdue(date):
        return sum(dose["localDate"] == date and view.is_over(dose, now) for dose in doses.values())

    run = best = 0
    for date, day in sorted(summaries.items()):
        if date < first.isoformat():
            run, best = day["run"], day["best"]
            continue
        is_open = day["pendingCount"] > 0 and not day["missedCount"] and not overdue(date)
        if is_open or date > today.isoformat() or date == today.isoformat() and day["missedCount"] + day["pendingCount"]:
            continue
        if is_perfect(day):
            run += 1
        elif not is_neutral(day):
            run = 0
        best = max(best, run)

    percentages, good, due = [], 0, 0
    for back in range(1, 31):
        date = (today - datetime.timedelta(days=back)).isoformat()
        if date not in summaries:
            continue
        day = view.summary(doses, date)
        good += day["takenCount"] + day["madeUpCount"]
        due += day["takenCount"] + day["madeUpCount"] + day["missedCount"] + overdue(date)
        if day["adherencePct"] is not None:
            percentages.append(decimal.Decimal(str(day["adherencePct"])))
    return {
        "currentStreakDays": run, "bestStreakDays": best,
        "avg30DaysPct": _half_up(sum(percentages) / len(percentages)) if percentages else None,
        "doses30Pct": _half_up(decimal.Decimal(100 * good) / due) if due else None,
    }
