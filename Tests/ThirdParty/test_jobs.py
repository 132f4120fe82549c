"""Jobs: two hubs run them over simulated days, one is killed again and again. No dose is missed twice, none is left, and no
event comes twice."""

import collections
import itertools
import json
import random

import pytest

from hub import Program
from stage import Stage
from storm import new_seed
from waiting import PATIENCE, eventually

#: Simulated days, and their steps: eight hours each.
DAYS = 6
STEP = "8 hours"
USERS = [f"job-{number}" for number in range(25)]
#: Doses of a user and a day.
DOSES = 4

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
    with Stage(hubs=2, settings={"CARILLON_OPERATIONS_LISTEN": "off"}) as stage:
        with stage.superuser() as connection:
            connection.execute(CLOCK)
        stage.query(
            "insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)"
            " select format('%%s.%%s.%%s', u, d, n), u, 'zinc',"
            "        now() + make_interval(days => d, hours => 6 * n) - interval '1 hour'"
            " from unnest(%s::text[]) as u, generate_series(0, %s) as d, generate_series(0, %s) as n",
            [USERS, DAYS - 1, DOSES - 1])
        yield stage


def nothing_is_due(stage):
    return stage.query("select sync.job_lag('miss_doses', null) = 0")[0][0]


def once(stage):
    """`carillon jobs --once miss_doses`, beside the hubs."""
    return Program("jobs", "--once", "miss_doses", environment={"DATABASE_URL": stage.url("carillon_hub")})


def people_act(stage, dice, numbers):
    """Some take doses, in time or late, and some take that back: the dose is then open again, or missed."""
    keys = []
    for user in dice.sample(USERS, 8):
        dose, = dice.choice(stage.query(
            "select id from care.dose_occurrence where user_id = %s and scheduled_at < sync.clock()", [user]))
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
    falling, kills = stage.hubs[0], 0
    for _ in range(DAYS * 3 + 2):
        stage.query("select 1")
        with stage.superuser() as connection:
            connection.execute(f"update judge.clock set ahead = ahead + interval '{STEP}'")
        beside = once(stage)
        people_act(stage, dice, numbers)
        if dice.random() < 0.7:
            falling.kill()
            beside.kill()
            kills += 1
            falling.start()
        people_act(stage, dice, numbers)
        eventually(lambda: nothing_is_due(stage), "nothing is due")
        beside.wait(PATIENCE)
        # Which doses are open is known from the clock alone.
        assert stage.query("select count(*) from care.dose_occurrence"
                           " where status = 'scheduled' and window_end + care.grace() <= sync.clock() - interval '10 s'"
                           ) == [(0,)]
    for hub in stage.hubs:
        hub.stop()
    assert kills > 3

    statuses = collections.Counter(status for status, in stage.query("select status from care.dose_occurrence"))
    assert sum(statuses.values()) == len(USERS) * DAYS * DOSES
    assert set(statuses) == {"taken", "missed"}, statuses
    # A miss is of an open dose, always. Each change follows from the one before.
    missed = stage.query(
        "select count(*), count(*) filter (where was_status = 'scheduled' and status = 'missed')"
        " from care.dose_audit where actor = 'system'")
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
    job = Program("jobs", "--once", "miss_doses", "--clock", "2000-01-01T00:00:00Z",
                  environment={"DATABASE_URL": stage.url("carillon_hub")})
    assert job.wait() == 0 and "miss_doses: 0 done in 1 batch" in job.out.text()
    job = Program("jobs", "--once", "miss_doses", "--clock", "2100-01-01T00:00:00Z",
                  environment={"DATABASE_URL": stage.url("carillon_hub")})
    assert job.wait() == 0 and f"miss_doses: {len(USERS) * DAYS * DOSES} done in " in job.out.text()
    job = Program("jobs", "--once", "mow_lawn", environment={"DATABASE_URL": stage.url("carillon_hub")})
    assert job.wait() == 78 and "there is no such job" in job.err.text()
    job = Program("jobs", "--once", "miss_doses", "--clock", "noon",
                  environment={"DATABASE_URL": stage.url("carillon_hub")})
    assert job.wait() == 1 and "miss_doses failed" in job.err.text()
