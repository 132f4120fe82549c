"""Jobs: two hubs run them over simulated days, one is killed again and again. No dose is planned or missed twice, none
is left out, and no event comes twice. Devices hear at once of what a job did."""

import collections
import datetime
import itertools
import json
import random
import re
import zoneinfo

import pytest

from device import Device
from hub import Hub, Program
from names import stream
from stage import Stage
from storm import new_seed
from waiting import PATIENCE, eventually

#: Simulated days, and their steps: eight hours each.
DAYS = 9
STEP = "8 hours"
#: The steps at which a product of the catalogue is archived and comes back, and the last day of a schedule that ends.
ARCHIVED, BACK, ENDS = 8, 15, 5
USERS = [f"job-{number}" for number in range(25)]
#: Doses of a user and a day that somebody wrote, beside those of schedules.
DOSES = 4
ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]
DAY = datetime.timedelta(days=1)
#: From a dose's time to the end of its window, where its schedule says nothing else.
WINDOW = datetime.timedelta(hours=4)

#: The hubs' clock: ours, and a distance that the test sets.
CLOCK = """
    create schema judge;
    create table judge.clock (ahead interval not null);
    insert into judge.clock values ('0');
    grant usage on schema judge to carillon_owner;
    grant select on judge.clock to carillon_owner;
    create or replace function sync.clock() returns timestamptz language sql volatile
        as 'select clock_timestamp() + (select ahead from judge.clock)';
"""

#: What people do meanwhile: they take a dose, or take one back.
ACT = "select status, answer::jsonb from sync.apply(%s, %s, null, null, %s, %s, null, null, null)"


@pytest.fixture
def stage():
    # No event is older than a real day: by the simulated clock, all would go.
    settings = {"CARILLON_OPERATIONS_LISTEN": "off", "CARILLON_STORE_RETAIN_EVENTS": "90"}
    with Stage(hubs=2, settings=settings) as stage:
        with stage.superuser() as connection:
            connection.execute(CLOCK)
        stage.query("insert into care.product (id, name) values ('zinc', 'Zinc'), ('iron', 'Iron')")
        stage.query(
            "insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)"
            " select format('%%s.%%s.%%s', u, d, n), u, 'zinc',"
            "        now() + make_interval(days => d, hours => 6 * n) - interval '1 hour'"
            " from unnest(%s::text[]) as u, generate_series(0, %s) as d, generate_series(0, %s) as n",
            [USERS, DAYS - 1, DOSES - 1])
        yield stage


def nothing_is_due(stage):
    return stage.query("select sync.job_lag('miss_doses', null) = 0")[0][0]


def once(stage, job, *options):
    """`carillon jobs --once JOB`, beside the hubs."""
    return Program("jobs", "--once", job, *options, environment={"DATABASE_URL": stage.url("carillon_hub")})


def clock_of(stage):
    return stage.query("select sync.clock()")[0][0]


class Plans:
    """Schedules of many zones, and what becomes of their products: one is renamed, one is archived and comes back."""

    def __init__(self, stage):
        self.stage, self.names, self.gone, self.back = stage, ["Zinc"], None, None
        self.begun = clock_of(stage)
        #: (id, product, wall time, zone, last day)
        self.schedules = []
        for number, user in enumerate(USERS[:10]):
            zone = zoneinfo.ZoneInfo(ZONES[number % len(ZONES)])
            last = self.begun.astimezone(zone).date() + ENDS * DAY if number < 2 else None
            for product, hour in (("zinc", 8), ("iron", 20)):
                wall = datetime.time(hour, number)
                self.schedules.append((f"{user}/{product}", product, wall, zone, last))
                stage.query(
                    "insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode, ends_on)"
                    " values (%s, %s, %s, %s, %s, 'fixed', %s)",
                    [f"{user}/{product}", user, product, wall, str(zone), last])
        self.made = clock_of(stage)

    def step(self, number):
        """People of the backend change a product of the catalogue."""
        if number % 4 == 1:
            self.names.append(f"Zinc {number}")
            self.stage.query("update care.product set name = %s where id = 'zinc'", [self.names[-1]])
        if number == ARCHIVED:
            self.gone = [clock_of(self.stage)]
            self.stage.query("update care.product set archived_at = sync.clock() where id = 'iron'")
        if number == BACK:
            self.back = [clock_of(self.stage)]
            self.stage.query("update care.product set archived_at = null where id = 'iron'")

    def settle(self, number):
        """Returns when changed products are carried everywhere, and each schedule is planned for its day."""
        def done():
            # While a hub has a job, the command does nothing.
            for job in ("plan_doses", "spread_products"):
                assert once(self.stage, job).wait(PATIENCE) == 0
            return self.stage.query("select sync.job_lag('plan_doses', null) = 0 and not exists"
                                    " (select from care.product_spread)")[0][0]

        eventually(done, "nothing is to be planned or spread")
        if number == ARCHIVED:
            self.gone.append(clock_of(self.stage))
        if number == BACK:
            self.back.append(clock_of(self.stage))

    def expected(self, schedule, now):
        """The instants that doses must have by local day, and those that they may have beside."""
        _, product, wall, zone, last = schedule
        end = now.astimezone(zone).date() + 14 * DAY
        must, may = {}, {}
        day = self.begun.astimezone(zone).date()
        while day <= min(end, last or end):
            at = datetime.datetime.combine(day, wall, zone).astimezone(datetime.timezone.utc)
            away = [self.begun, self.made, *(self.gone + self.back if product == "iron" else [])]
            # Before the schedule, while it is made, there; while the product goes, away; while it comes, there again.
            stage = sum(moment <= at for moment in away)
            # One whose window runs when the product is back is open again.
            if stage % 2 or stage == 4 and at + WINDOW > self.back[0]:
                may[day] = at
            elif stage in (2, 6):
                must[day] = at
            day += DAY
        return must, may

    def check(self, now):
        """Each slot has one dose, at its instant; what is still ahead has the product's name."""
        count = 0
        for schedule in self.schedules:
            must, may = self.expected(schedule, now)
            found = self.stage.query(
                "select local_date, scheduled_at from care.dose_occurrence where schedule_id = %s"
                " and status <> 'cancelled' order by local_date", [schedule[0]])
            assert len(found) == len(dict(found)), f"{schedule}: a day twice"
            assert must.items() <= dict(found).items() <= {**must, **may}.items(), (schedule, found)
            count += len(found)
        assert count > 10 * (DAYS + 14)
        cancelled = self.stage.query(
            "select count(*), count(*) filter (where cancelled_by_plan and product_id = 'iron')"
            " from care.dose_occurrence where status = 'cancelled'")
        assert cancelled[0][0] == cancelled[0][1] > 0, cancelled
        names = self.stage.query("select distinct product_name, status = 'scheduled' and scheduled_at > %s"
                                 " from care.dose_occurrence where product_id = 'zinc'", [now])
        assert {name for name, is_ahead in names if is_ahead} == {self.names[-1]}
        assert {name for name, _ in names} <= set(self.names) and len({name for name, _ in names}) > 3


def people_act(stage, dice, numbers):
    """Some take doses, in time or late, and some take that back: the dose is then open again, or missed."""
    keys = []
    for user in dice.sample(USERS, 8):
        dose, = dice.choice(stage.query(
            "select id from care.dose_occurrence where user_id = %s and scheduled_at < sync.clock()"
            " and status <> 'cancelled'", [user]))
        key = f"key-{next(numbers)}"
        payload = {"occurrenceId": dose}
        if dice.random() < 0.6:
            (payload["takenAt"],), = stage.query(
                "select to_char((scheduled_at + interval '1 minute') at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SSZ')"
                " from care.dose_occurrence where id = %s", [dose])
        stage.query(ACT, [user, key, "markTaken", json.dumps(payload)])
        keys.append((user, key))
    for user, key in keys:
        if dice.random() < 0.4:
            stage.query(ACT, [user, f"key-{next(numbers)}", "undo", json.dumps({"targetKey": key})])


def test_two_hubs_over_days_with_one_that_falls(stage):
    seed = new_seed()
    print(f"CARILLON_SEED={seed}")
    dice, numbers = random.Random(seed), itertools.count()
    plans = Plans(stage)
    falling, kills = stage.hubs[0], 0
    for step in range(DAYS * 3 + 2):
        with stage.superuser() as connection:
            connection.execute(f"update judge.clock set ahead = ahead + interval '{STEP}'")
        plans.step(step)
        # A hub plans and spreads when it starts, and then seldom: nobody waits for that.
        beside = [once(stage, job) for job in ("miss_doses", "plan_doses", "spread_products")]
        people_act(stage, dice, numbers)
        if dice.random() < 0.7:
            falling.kill()
            for program in beside:
                program.kill()
            kills += 1
            falling.start()
        people_act(stage, dice, numbers)
        plans.settle(step)
        eventually(lambda: nothing_is_due(stage), "nothing is due")
        for program in beside:
            program.wait(PATIENCE)
        # Which doses are open is known from the clock alone.
        assert stage.query("select count(*) from care.dose_occurrence"
                           " where status = 'scheduled' and window_end + care.grace() <= sync.clock() - interval '10 s'"
                           ) == [(0,)]
    for hub in stage.hubs:
        hub.stop()
    assert kills > 3
    now = clock_of(stage)
    for job in ("plan_doses", "spread_products", "miss_doses"):
        assert once(stage, job, "--clock", now.isoformat()).wait(PATIENCE) == 0
    plans.check(now)

    statuses = collections.Counter(status for status, in stage.query(
        "select status from care.dose_occurrence where schedule_id is null"))
    assert sum(statuses.values()) == len(USERS) * DAYS * DOSES
    assert set(statuses) == {"taken", "missed"}, statuses
    # A miss is of an open dose, always. Each change follows from the one before.
    missed = stage.query(
        "select count(*), count(*) filter (where was_status = 'scheduled' and actor = 'system')"
        " from care.dose_audit where status = 'missed' and was_status <> 'missed' and actor <> 'user'")
    assert missed[0][0] == missed[0][1] > statuses["missed"] / 2, missed
    assert stage.query(
        "select count(*) from (select was_rev, lag(rev) over (partition by occurrence_id order by n) as before"
        " from care.dose_audit) as a where was_rev is distinct from before") == [(0,)]
    # One event for each change, and no other; offsets without a hole.
    assert stage.query(
        "select count(*) from care.dose_audit as a full join"
        " (select user_id, data ->> 'occurrenceId' as id, (data #>> '{updates,rev}')::bigint as rev from sync.event"
        "  where name like 'occurrence.%%') as e on e.id = a.occurrence_id and e.rev = a.rev and e.user_id = a.user_id"
        " where e.rev is null or a.rev is null", []) == [(0,)]
    assert stage.query(
        "select count(*), count(distinct (data ->> 'occurrenceId', data #>> '{updates,rev}')) from sync.event"
        " where name like 'occurrence.%%'", [])[0] == stage.query(
        "select count(*), count(*) from care.dose_audit")[0]
    assert stage.query(
        "select s.user_id from sync.stream as s where array(select e.o from sync.event as e where e.user_id = s.user_id"
        " and e.topic = s.topic order by e.o) <> array(select generate_series(1, s.top))") == []


def test_once_by_the_clock_that_is_given(stage):
    for hub in stage.hubs:
        hub.stop()
    job = once(stage, "miss_doses", "--clock", "2000-01-01T00:00:00Z")
    assert job.wait() == 0 and "miss_doses: 0 done in 1 batch" in job.out.text()
    job = once(stage, "miss_doses", "--clock", "2100-01-01T00:00:00Z")
    assert job.wait() == 0 and f"miss_doses: {len(USERS) * DAYS * DOSES} done in " in job.out.text()
    job = once(stage, "mow_lawn")
    assert job.wait() == 78 and "there is no such job" in job.err.text()
    names = re.search(r"There are ([a-z_, ]+)", job.err.text())[1].split(", ")
    assert {"plan_doses", "miss_doses", "spread_products", "fire_reminders"} < set(names)
    for name in names:
        job = once(stage, name)
        assert job.wait() == 0 and f"{name}: " in job.out.text(), job.err.text()
    job = once(stage, "miss_doses", "--clock", "noon")
    assert job.wait() == 1 and "miss_doses failed" in job.err.text()


#: Longer than a test waits: what comes earlier was announced.
RARELY = "60s"
#: An announcement that begins, and tells nobody while another session has the lock.
HELD_ANNOUNCEMENT = """
    create or replace function sync.announce() returns void language plpgsql security definer as $$
    begin
        perform set_config('lock_timeout', '0', true);
        perform pg_advisory_xact_lock(4711);
        perform pg_notify('sync', '');
    end
    $$
"""


def hearing(hub, user):
    """A device of the user, which has subscribed."""
    device = Device(hub, token=hub.token(user))
    device.authenticated()
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    return device


def add_quietly(hub, user, ends):
    """A dose whose window ends then, and nobody is told of it."""
    with hub.database() as connection:
        connection.execute("set sync.notify = off")
        (dose,), = connection.execute(
            "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
            f" values (%s, 'zinc', now() - interval '5 hours', now() + interval '{ends}') returning id", [user])
    return dose


def misses(device, user, dose, timeout):
    """Waits until the device hears that the dose was missed."""
    device.wait_for(
        lambda frame: frame.channel == stream(user) and frame.event == "occurrence.updated"
        and frame.data["occurrenceId"] == dose and frame.data["updates"]["status"] == "missed", "it is missed", timeout)


def test_devices_hear_at_once_of_what_a_job_did(user):
    with Hub("--feed-poll-interval", RARELY) as hub, hearing(hub, user) as device:
        misses(device, user, add_quietly(hub, user, "-1 hour"), 20)
        dose = add_quietly(hub, user, "1 hour")
        job = Program("jobs", "--once", "miss_doses", "--clock", "2100-01-01T00:00:00Z",
                      environment={"DATABASE_URL": hub.database_url})
        assert job.wait() == 0
        misses(device, user, dose, 20)


def test_a_job_that_dies_before_it_announces_costs_a_poll_at_most(user):
    with Hub() as hub, hearing(hub, user) as device, hub.superuser() as witness:
        dose = add_quietly(hub, user, "1 hour")
        witness.execute(HELD_ANNOUNCEMENT)
        witness.execute("select pg_advisory_lock(4711)")
        job = Program("jobs", "--once", "miss_doses", "--clock", "2100-01-01T00:00:00Z",
                      environment={"DATABASE_URL": hub.database_url})

        def waits():
            return witness.execute("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                                   " and query = 'SELECT sync.announce()'").fetchone()[0]

        eventually(waits, "the batch is committed, and the announcement has begun")
        assert hub.query("select status from care.dose_occurrence where id = %s", [dose]) == [("missed",)]
        assert job.process.poll() is None, "it waits"
        job.kill()
        misses(device, user, dose, PATIENCE)
