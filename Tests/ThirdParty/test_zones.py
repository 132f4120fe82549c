"""When doses are due: what PostgreSQL plans against Python's zoneinfo, over all zones that both know."""

import datetime
import random
import zoneinfo

import pytest

from hub import Hub

UTC = datetime.timezone.utc
DAY = datetime.timedelta(days=1)
#: Beside the days of transitions, such days are compared in every zone.
SAMPLES = 4
WALLS = [datetime.time(*hour) for hour in
         ((0, 0), (0, 30), (1, 0), (1, 15), (1, 45), (2, 0), (2, 15), (2, 30), (3, 0), (12, 0), (23, 45))]


@pytest.fixture(scope="module")
def planner():
    """A hub of its own, for its clock is set; and Python reads the system's zones, as PostgreSQL does."""
    zoneinfo.reset_tzpath(to=["/usr/share/zoneinfo"])
    with Hub() as running:
        running.wait_until_listening()
        yield running


def instant(wall, zone):
    """By RFC 5545: in a gap the offset before it, in an overlap the first of two; that is a fold of 0."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def exists(day, zone):
    """Whether some quarter of an hour of this local day is shown by a clock there."""
    walls = (datetime.datetime.combine(day, datetime.time()) + n * datetime.timedelta(minutes=15) for n in range(96))
    return any(instant(wall, zone).astimezone(zone).replace(tzinfo=None) == wall for wall in walls)


def turning_days(zone, first, last):
    """The days on whose UTC noon the offset is another than on the noon before."""
    days, before = [], None
    for n in range((last - first).days):
        noon = datetime.datetime.combine(first + n * DAY, datetime.time(12), UTC)
        offset = noon.astimezone(zone).utcoffset()
        if before is not None and offset != before:
            days.append(first + n * DAY)
        before = offset
    return days


def expected(zone, first, count, wall):
    """(day, instant) of each day that there is."""
    days = [first + n * DAY for n in range(count)]
    return [(day, instant(datetime.datetime.combine(day, wall), zone)) for day in days if exists(day, zone)]


def given(connection, cases):
    """What the planner's own recurrence gives for cases of (zone, first day, wall time): three days of each."""
    rows = connection.execute(
        "select c.n, w.day, w.at from (select n, day, jsonb_populate_record(null::care.schedule, jsonb_build_object("
        "   'id', 'r', 'product_id', 'p', 'time', wall, 'repeat', 'daily', 'window_minutes', 240, 'enabled', true,"
        "   'timezone', care.named_zone(zone))) as rule"
        " from unnest(%s::text[], %s::date[], %s::time[]) with ordinality as t(zone, day, wall, n) offset 0) as c"
        " cross join lateral care.slots(c.rule, c.day, c.day + 2) as w order by c.n, w.day",
        [list(column) for column in zip(*cases)]).fetchall()
    found = [[] for _ in cases]
    for number, day, at in rows:
        found[number - 1].append((day, at))
    return found


def compare(connection, cases):
    for (name, first, wall), found in zip(cases, given(connection, cases)):
        assert found == expected(zoneinfo.ZoneInfo(name), first, 3, wall), f"{name} {first} {wall}"


def shared_zones(connection):
    there = {name for name, in connection.execute("select name from pg_timezone_names")}
    names = {name for name in there & zoneinfo.available_timezones() if not name.startswith(("posix/", "right/"))}
    return sorted(names - {"localtime", "posixrules", "Factory"})


def test_all_zones_around_their_transitions(planner, record_property):
    dice = random.Random(1)
    first, last = datetime.date(2025, 1, 1), datetime.date(2031, 1, 1)
    with planner.database() as connection:
        names = shared_zones(connection)
        assert len(names) > 400
        transitions, compared = 0, 0
        for name in names:
            zone = zoneinfo.ZoneInfo(name)
            turning = turning_days(zone, first, last)
            transitions += len(turning)
            days = [day - 2 * DAY for day in turning]
            days += [first + dice.randrange((last - first).days) * DAY for _ in range(SAMPLES)]
            # All times of day on one of them, and two on the others.
            cases = [(name, day, wall) for day in days[:1] for wall in WALLS]
            cases += [(name, day, wall) for day in days[1:] for wall in dice.sample(WALLS, 2)]
            compare(connection, cases)
            compared += len(cases)
        record_property("report", f"{len(names)} zones, {transitions} transitions, {compared} runs of three days")


@pytest.mark.parametrize("name, first, last", [
    ("America/New_York", "2025-01-01", "2031-01-01"),
    ("Europe/Dublin", "2025-01-01", "2031-01-01"),
    ("Australia/Lord_Howe", "2025-01-01", "2031-01-01"),
    ("Africa/Casablanca", "2025-01-01", "2031-01-01"),
    ("Pacific/Apia", "2011-09-01", "2012-05-01"),
    ("Asia/Pyongyang", "2015-08-01", "2018-06-01"),
])
def test_zones_by_name_at_every_quarter(planner, name, first, last):
    quarters = [datetime.time(n // 4, n % 4 * 15) for n in range(96)]
    turning = turning_days(zoneinfo.ZoneInfo(name), *map(datetime.date.fromisoformat, (first, last)))
    assert turning
    with planner.database() as connection:
        compare(connection, [(name, day - 2 * DAY, wall) for day in turning for wall in quarters])


def set_clock(connection, at):
    connection.execute("create or replace function sync.clock() returns timestamptz language sql volatile as"
                       f" $$ select '{at.isoformat()}'::timestamptz $$")


@pytest.mark.parametrize("clock, names", [
    ("2011-12-24T00:00:00+00:00", ["Pacific/Apia", "Pacific/Fakaofo", "Pacific/Auckland"]),
    ("2026-03-01T12:00:00+00:00", ["America/New_York", "America/Havana", "America/Asuncion", "America/St_Johns"]),
    ("2026-03-20T12:00:00+00:00", ["Europe/Dublin", "Europe/Berlin", "Asia/Beirut", "Africa/Casablanca"]),
    ("2026-10-20T12:00:00+00:00", ["Europe/Dublin", "Africa/Cairo", "America/New_York", "Asia/Kathmandu"]),
    ("2025-09-28T12:00:00+00:00", ["Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Chatham", "America/Santiago"]),
])
def test_planned_doses_are_at_these_instants(planner, user, clock, names):
    now = datetime.datetime.fromisoformat(clock)
    with planner.database() as connection:
        connection.execute("insert into care.product (id, name) values ('zone', 'Zone') on conflict do nothing")
        set_clock(connection, now)
        try:
            rules = [(f"{user}/{name}/{wall}", name, wall) for name in names for wall in WALLS[::2]]
            for rule, name, wall in rules:
                connection.execute(
                    "insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode)"
                    " values (%s, %s, 'zone', %s, %s, 'fixed')", (rule, user, wall, name))
            for rule, name, wall in rules:
                zone = zoneinfo.ZoneInfo(name)
                today = now.astimezone(zone).date()
                wanted = [(day, at) for day, at in expected(zone, today - DAY, 16, wall) if at > now]
                found = connection.execute("select local_date, scheduled_at from care.dose_occurrence"
                                           " where schedule_id = %s order by local_date", (rule,)).fetchall()
                assert found == wanted, rule
                assert all(connection.execute(
                    "select id = care.occurrence_id(%s, local_date + local_time) and local_time = %s and tz = %s"
                    " from care.dose_occurrence where schedule_id = %s", (rule, wall, name, rule)).fetchone())
        finally:
            connection.execute("create or replace function sync.clock() returns timestamptz language sql volatile as"
                               " $$ select pg_catalog.clock_timestamp() $$")
