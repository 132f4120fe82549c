"""Weeks of random edits by three offline devices of one user, on the real stack: all end equal, each conflict is shown once.
They come back by the socket, by the routes, and by the route of queues.

WEEKS says how many (a hundred: `WEEKS=100 Tests/ThirdParty/run test_reminder_weeks.py`), SEED which one alone."""

import os
import random
import urllib.parse

import pytest

from actions import Caller
from reminder_phone import ReminderPhone, fields, occurrence

WEEKS = int(os.environ.get("WEEKS", "3"))
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else [
    random.SystemRandom().randrange(1 << 32) for _ in range(WEEKS)]
LAST_ROUND = 60


def run(phones, dice):
    for _ in range(30):
        phone = dice.choice(phones)
        for _ in range(dice.choice([0, 1, 1, 2, 3])):
            phone.edit()
        if dice.random() < 0.35:
            phone.visit()
    for _ in range(LAST_ROUND):
        for phone in dice.sample(phones, len(phones)):
            phone.visit()
        if not any(phone.queue or phone.dialogs for phone in phones):
            return
    raise AssertionError([(phone.queue, phone.dialogs) for phone in phones])


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_three_offline_devices_end_equal(hub, user, number):
    seed = SEEDS[number]
    print(f"SEED={seed}")
    dice = random.Random(seed)
    phones = [ReminderPhone(hub, user, name, dice) for name in ("phone", "tablet", "watch")]
    run(phones, dice)
    body = Caller(hub, user).get(f"/users/{urllib.parse.quote(user)}/reminders").body
    expected = {rule["id"]: fields(rule) for rule in body["items"]}
    differing = {one["occurrenceId"]: occurrence(one, expected) for one in body["occurrences"]}
    for one in body["occurrences"]:
        assert one["start"][:16] == differing[one["occurrenceId"]]["start"], one
    for phone in phones:
        phone.connect()
        try:
            phone.listen()
        finally:
            phone.disconnect()
        assert {key: fields(rule) for key, rule in phone.rules.items()} == expected, phone.name
        assert {key: occurrence(one, phone.rules) for key, one in phone.occurrences.items()} == differing, phone.name
    stored = hub.query(
        "select id, rev, label, to_char(time, 'HH24:MI'), enabled from care.reminder_rule where user_id = %s", [user])
    assert sorted(stored) == sorted(
        (rule["id"], rule["rev"], rule["label"], rule["time"], rule["enabled"]) for rule in expected.values())
    products = [rule["productId"] for rule in expected.values()]
    assert len(set(products)) == len(products), "a rule is there twice"

    actions = dict(hub.query("select key, status from sync.action where user_id = %s", [user]))
    shown = [key for phone in phones for key in phone.shown]
    assert len(set(shown)) == len(shown), "a conflict was shown twice"
    assert set(shown) == {key for key, status in actions.items() if status == "conflict"}
    told = hub.query(
        "select o, data::jsonb #>> '{_sync,k}' from sync.event where user_id = %s and topic = 'reminders' order by o",
        [user])
    assert [offset for offset, _ in told] == list(range(1, len(told) + 1))
    keys = [key for _, key in told]
    assert len(set(keys)) == len(keys), "an action was told twice"
    outcomes = {key: status for phone in phones for key, status in phone.outcomes.items()}
    other = {key: (status, actions.get(key)) for key, status in outcomes.items() if status != actions.get(key)}
    # A rejection of what may still come is not stored.
    assert not {key: pair for key, pair in other.items() if pair != ("rejected", None)}, "another answer than is stored"
    assert {key for key, status in outcomes.items() if status == "applied"} <= set(keys)
    assert "applied" in outcomes.values()
