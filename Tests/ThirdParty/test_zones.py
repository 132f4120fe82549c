"""When doses are due: what PostgreSQL plans against Python's zoneinfo, over all zones that both know."""

import datetime
import json
import random
import typing
import zoneinfo

import pytest

from hub import Hub

UTC = datetime.timezone.utc
DAY = datetime.timedelta(days=1)
#: Beside the days of transitions, such days are compared in every zone.
SAMPLES = 4
WALLS = [datetime.time(*hour) for hour in
         ((0, 0), (0, 30), (1, 0), (1, 15), (1, 45), (2, 0), (2, 15), (2, 30), (3, 0), (12, 0), (23, 45))]


WORKDAYS = [1, 2, 3, 4, 5]
#: As `custom` gives them: a day of the week, which is what weekly is, weekends, all but one.
CUSTOM = [[1], [3], [7], [2, 5], [6, 7], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]]


class Rule(typing.NamedTuple):
    """How a schedule repeats: in SQL's words; and once more as a set of days."""

    wall: datetime.time
    repeat: str = "daily"
    on: list = None
    starts: datetime.date = None
    ends: datetime.date = None

    def gives(self, day):
        days = {"weekdays": WORKDAYS, "custom": self.on}.get(self.repeat)
        return ((days is None or day.isoweekday() in days) and (self.starts is None or self.starts <= day)
                and (self.ends is None or day <= self.ends))

    def columns(self):
        return {"time": self.wall.isoformat(), "repeat": self.repeat, "repeat_on": self.on,
                "starts_on": self.starts and self.starts.isoformat(), "ends_on": self.ends and self.ends.isoformat()}


def a_rule(dice, first, count):
    """One whose bounds are near the days that are looked at."""
    repeat = dice.choice(["daily", "weekdays", "custom", "custom"])
    starts, ends = (dice.choice([None, first + dice.randrange(-3, count + 2) * DAY]) for _ in range(2))
    return Rule(dice.choice(WALLS), repeat, dice.choice(CUSTOM) if repeat == "custom" else None, starts, ends)


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


def given_by_rules(connection, cases, count):
    """What the planner's own recurrence gives for cases of (zone, first day, rule): `count` days of each."""
    rows = connection.execute(
        "select c.n, w.day, w.at from (select n, day, jsonb_populate_record(null::care.schedule, jsonb_build_object("
        "   'id', 'r', 'product_id', 'p', 'window_minutes', 240, 'enabled', true,"
        "   'timezone', care.named_zone(zone)) || rule::jsonb) as rule"
        " from unnest(%s::text[], %s::date[], %s::text[]) with ordinality as t(zone, day, rule, n) offset 0) as c"
        " cross join lateral care.slots(c.rule, c.day, c.day + %s) as w order by c.n, w.day",
        [[name for name, _, _ in cases], [first for _, first, _ in cases],
         [json.dumps(rule.columns()) for _, _, rule in cases], count - 1]).fetchall()
    found = [[] for _ in cases]
    for number, day, at in rows:
        found[number - 1].append((day, at))
    return found


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


def test_weekdays_custom_days_starts_and_ends(planner, record_property):
    """Three weeks around a transition of each zone, where it has one."""
    dice, count, compared, doses = random.Random(2), 21, 0, 0
    first, last = datetime.date(2025, 1, 1), datetime.date(2031, 1, 1)
    with planner.database() as connection:
        for name in shared_zones(connection):
            zone = zoneinfo.ZoneInfo(name)
            turning = turning_days(zone, first, last) or [first + dice.randrange((last - first).days) * DAY]
            cases = []
            for _ in range(6):
                start = dice.choice(turning) - dice.randrange(count) * DAY
                cases.append((name, start, a_rule(dice, start, count)))
            for (_, start, rule), found in zip(cases, given_by_rules(connection, cases, count)):
                wanted = [one for one in expected(zone, start, count, rule.wall) if rule.gives(one[0])]
                assert found == wanted, f"{name} {start} {rule}"
                compared, doses = compared + 1, doses + len(found)
    assert compared > 2_400 and doses > 10_000
    record_property("report", f"{compared} rules over three weeks each, {doses} doses")


@pytest.mark.parametrize("clock", [
    "2011-12-24T00:00:00+00:00", "2026-03-01T12:00:00+00:00", "2026-10-20T12:00:00+00:00", "2027-12-29T23:30:00+00:00"])
def test_rules_are_planned(planner, user, clock):
    """Two weeks ahead; from a start that has passed on, at most 90 days back; after an end, nothing."""
    dice = random.Random(clock)
    now = datetime.datetime.fromisoformat(clock)
    names = ["Pacific/Apia", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
    with planner.database() as connection:
        connection.execute("insert into care.product (id, name) values ('zone', 'Zone') on conflict do nothing")
        set_clock(connection, now)
        try:
            for number in range(60):
                name = dice.choice(names)
                zone = zoneinfo.ZoneInfo(name)
                today = now.astimezone(zone).date()
                rule = a_rule(dice, today - dice.choice([120, 40, 3]) * DAY, 140)
                identity = f"{user}/{number}"
                connection.execute(
                    "insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode, repeat, repeat_on,"
                    " starts_on, ends_on) values (%s, %s, 'zone', %s, %s, 'fixed', %s, %s, %s, %s)",
                    (identity, user, rule.wall, name, rule.repeat, rule.on, rule.starts, rule.ends))
                past = today - 90 * DAY
                wanted = [(day, at) for day, at in expected(zone, past, 90 + 15, rule.wall)
                          if rule.gives(day) and (at > now or rule.starts is not None)]
                found = connection.execute("select local_date, scheduled_at from care.dose_occurrence"
                                           " where schedule_id = %s order by local_date", (identity,)).fetchall()
                assert found == wanted, f"{name} {rule}"
        finally:
            connection.execute("create or replace function sync.clock() returns timestamptz language sql volatile as"
                               " $$ select pg_catalog.clock_timestamp() $$")
