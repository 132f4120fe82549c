"""What the apps' own client code does, as it is printed: its queue, its replays, its banner, its undo."""

import datetime
import uuid

import pytest

from actions import Caller, act, add_dose, envelope, joined, plain, row, same_instant, stamp

HOUR = datetime.timedelta(hours=1)
ROUTES = ["/adherence/actions", "actions"]


def queued(kind, payload, at=None, **more):
    """An entry of the offline queue. `at` is a text, or the milliseconds of `Date.now()`."""
    return {"id": str(uuid.uuid4()), "type": kind, "payload": payload, "timestamp": at or stamp(), **more}


def at_noon(hub, user):
    """Puts the user where it is between noon and one; the start of that user's day."""
    now = datetime.datetime.now(datetime.timezone.utc)
    east = 12 - now.hour
    hub.query("insert into care.user_settings (user_id, zone) values (%s, %s)", [user, f"Etc/GMT{-east:+d}"])
    return (now + east * HOUR).replace(hour=0, minute=0, second=0, microsecond=0) - east * HOUR


def dose_at(hub, user, when, **columns):
    names, markers = "".join(f", {name}" for name in columns), ", %s" * len(columns)
    (identity,), = hub.query(
        f"insert into care.dose_occurrence (user_id, product_id, scheduled_at{names})"
        f" values (%s, 'zinc', %s{markers}) returning id", [user, when, *columns.values()])
    return identity


def events(hub, user):
    (count,), = hub.query("select count(*) from sync.event where user_id = %s", [user])
    return count


@pytest.mark.parametrize("route", ROUTES)
def test_the_queue_is_posted_as_stored(hub, user, route):
    """In order, with retries counted by the client; each entry is done once, and answered with the dose itself."""
    taken, missed, noted = add_dose(hub, user), add_dose(hub, user, hours=-9, status="missed"), add_dose(hub, user)
    caller = Caller(hub, user)
    milliseconds = round((datetime.datetime.now().timestamp() - 60) * 1000)
    queue = [
        queued("markTaken", {"occurrenceId": taken, "takenAt": "2000-01-01T00:00:00Z"}),
        queued("markTaken", {"occurrenceId": taken}, milliseconds),
        queued("makeUp", {"occurrenceId": missed, "reason": "forgot", "note": "with water"}, retries=0),
        queued("addNote", {"occurrenceId": noted, "text": "before breakfast"}, milliseconds),
        queued("markMissed", {"occurrenceId": missed})]
    answers = [caller.settle(entry, route=route) for entry in queue]
    assert [answer.status for answer in answers] == [422, 200, 200, 200, 409]
    assert answers[0].body["path"] == "payload.takenAt" and answers[0].body["_sync"]["key"] == queue[0]["id"]
    assert [(answer.body["id"], answer.body["status"], answer.body["note"]) for answer in answers[1:4]] == [
        (taken, "taken", None), (missed, "made_up", "with water"), (noted, "scheduled", "before breakfast")]
    told = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
    assert same_instant(answers[1].body["takenAt"], told.isoformat())
    assert answers[4].body["conflict"]["server"]["status"] == "made_up"
    before = events(hub, user)
    for entry, answer in zip(queue, answers):
        again = caller.settle({**entry, "retries": entry.get("retries", 0) + 1}, route=route)
        assert again.status == answer.status
        assert again.body == {**answer.body, "_sync": {**answer.body["_sync"], "replayed": True}}
    assert events(hub, user) == before
    # The seeds' hook makes the same action of an entry.
    body = plain(queue[1]["type"], queue[1]["payload"], queue[1]["id"])
    assert caller.settle(body).body["_sync"]["replayed"] is True


def test_routes_of_the_tokens_user(hub, user):
    dose = add_dose(hub, user)
    caller, stranger = Caller(hub, user), Caller(hub, f"{user}.stranger")
    assert caller.settle(plain("skip", {"occurrenceId": dose}), route="/adherence/actions").body["userId"] == user
    assert stranger.settle(plain("skip", {"occurrenceId": dose}), route="/adherence/actions").status == 409
    answer = caller.settle(queued("bulkMarkAll", {"occurrenceIds": [dose]}), route="/adherence/bulk")
    assert (answer.status, answer.body["code"]) == (409, "state")
    assert Caller(hub, user, token="").post({}, route="/adherence/actions").status == 401
    assert caller.post({}, route="/adherence/bulk").status == 400
    sent = envelope("addNote", {"occurrenceId": dose, "text": "n"})
    assert caller.settle(sent, route="/adherence/actions").body["key"] == sent["key"], "an envelope stays one"
    wrong = caller.settle(queued("swallow", {"occurrenceId": dose}), route="/adherence/actions")
    assert (wrong.status, wrong.body["path"]) == (422, "type")
    wrong = caller.settle(queued("skip", {"occurrenceId": dose}, "yesterday"), route="/adherence/actions")
    assert (wrong.status, wrong.body["path"]) == (422, "timestamp")


def test_mark_all_of_today_live_and_days_later(hub, user):
    """A list that was confirmed at noon: sent at once, or found in the queue after days in which a job marked doses."""
    start = at_noon(hub, user)
    caller = Caller(hub, user)
    outcomes = []
    for day in (0, -3):
        first = start + day * 24 * HOUR
        ids = [dose_at(hub, user, first + hour * HOUR) for hour in (9, 15, 23, 24, 47)]
        ids.append(dose_at(hub, user, first + 2 * HOUR, status="missed"))
        confirmed = first + 12 * HOUR if day else datetime.datetime.now(datetime.timezone.utc)
        if day:
            hub.query("""
                do $$ begin
                    perform set_config('sync.actor', 'system', true);
                    update care.dose_occurrence set status = 'missed' where status = 'scheduled' and window_end < now();
                end $$""")
        entry = queued("bulkMarkAll", {"occurrenceIds": ids}, round(confirmed.timestamp() * 1000))
        answer = caller.settle(entry, route="bulk")
        assert answer.status == 200, answer
        assert caller.settle(entry, route="/adherence/bulk").body["_sync"]["replayed"] is True
        outcomes.append([item.get("code", item["status"]) for item in answer.body["items"]])
        for item in answer.body["items"][:3]:
            written = datetime.datetime.fromisoformat(item["occurrence"]["takenAt"])
            assert abs(written - confirmed) < datetime.timedelta(milliseconds=1), item
    assert outcomes[0] == ["applied", "applied", "applied", "not_due", "not_due", "late"]
    assert outcomes[1] == outcomes[0]


def test_a_dose_of_tomorrow_is_not_due_and_one_of_tonight_is_markable(hub, user):
    start = at_noon(hub, user)
    tonight, tomorrow = dose_at(hub, user, start + 23 * HOUR), dose_at(hub, user, start + 24 * HOUR)
    caller = Caller(hub, user)
    early = caller.settle(plain("markTaken", {"occurrenceId": tomorrow, "takenAt": stamp()}))
    assert (early.status, early.body["code"]) == (422, "not_due")
    assert caller.settle(plain("markTaken", {"occurrenceId": tonight, "takenAt": stamp()})).body["status"] == "taken"
    assert row(hub, tomorrow)[0] == "scheduled"
    criteria = caller.settle({"idempotencyKey": str(uuid.uuid4()), "criteria": {}}, route="bulk")
    assert criteria.body["items"] == [], "criteria keep to what is due"


def test_a_phone_whose_clock_is_fast(hub, user):
    dose = add_dose(hub, user)
    answer = Caller(hub, user).settle(queued("markTaken", {"occurrenceId": dose, "takenAt": stamp(20)}, stamp(20)))
    assert answer.status == 200
    late = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(answer.body["takenAt"])
    assert datetime.timedelta(0) <= late < datetime.timedelta(minutes=5)


def test_the_offset_of_the_time_and_its_undo(hub, user):
    dose = add_dose(hub, user)
    caller = Caller(hub, user)
    here = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))).replace(microsecond=0)
    taken = plain("markTaken", {"occurrenceId": dose, "takenAt": here.isoformat()})
    with joined(hub, user) as device:
        answer = caller.settle(taken)
        assert answer.body["takenAtLocal"] == here.isoformat() and answer.body["takenAt"].endswith("+00:00")
        assert same_instant(answer.body["takenAt"], here.isoformat())
        assert device.wait_for_event("occurrence.updated").data["updates"]["takenAtLocal"] == here.isoformat()
    skip = caller.settle(plain("skip", {"occurrenceId": dose}))
    keep = plain("resolve", {"of": skip.body["_sync"]["key"], "choice": "keep_local"})
    assert caller.settle(keep).body["takenAtLocal"] is None
    undone = caller.settle(plain("undo", {"targetKey": keep["idempotencyKey"]}))
    assert undone.body["takenAtLocal"] == here.isoformat()


def test_the_banner_of_another_device(hub, user):
    """The handler of `occurrence.updated` sees whether it was this device, another one, or none."""
    dose = add_dose(hub, user)
    with joined(hub, user) as tablet:
        def changed_by(change):
            start = tablet.count()
            change()
            return tablet.wait_for_event("occurrence.updated", start=start).data["updates"]["changedBy"]
        taken = envelope("markTaken", {"occurrenceId": dose}, deviceId="phone")
        with joined(hub, user) as phone:
            assert changed_by(lambda: act(phone, taken)) == {"actor": "user", "deviceId": "phone"}
        undo = plain("undo", {"targetKey": taken["key"]})
        assert changed_by(lambda: Caller(hub, user).settle(undo)) == {"actor": "user", "deviceId": None}
        assert changed_by(lambda: hub.query(
            "update care.dose_occurrence set note = 'by hand' where id = %s", [dose])) == {
                "actor": "backend", "deviceId": None}
        assert changed_by(lambda: hub.query(
            "with a as materialized (select set_config('sync.actor', 'system', true))"
            " update care.dose_occurrence set status = 'missed' from a where id = %s", [dose])) == {
                "actor": "system", "deviceId": None}
    conflict = Caller(hub, user).settle(plain("markMissed", {"occurrenceId": dose}))
    assert conflict.body["_sync"]["status"] == "noop" and conflict.body["changedBy"]["actor"] == "system"


def test_todays_answer_has_the_notes(hub, user):
    at_noon(hub, user)
    dose = add_dose(hub, user)
    with joined(hub, user) as device:
        assert act(device, envelope("addNote", {"occurrenceId": dose, "text": "with food"}))["status"] == "applied"
        event = device.wait_for_event("occurrence.updated")
        assert event.data["updates"]["hasNote"] is True and "with food" not in event.raw_data
    shown, = Caller(hub, user).get("today").body["occurrences"]
    assert (shown["id"], shown["note"], shown["changedBy"]["actor"]) == (dose, "with food", "user")
