"""Which actions are accepted from a device, and which are not; and a fault in the application's own trigger."""

import json
import pathlib
import re
import uuid

import pytest

from actions import Caller, act, add_dose, envelope, joined, plain, row, same_instant, stamp


def pages_sample(dose):
    """The action of the page on the wire, as a browser would send it for `dose`; without its comments it is all but JSON."""
    page = pathlib.Path(__file__).parents[2] / "Sources" / "Values" / "Sync" / "README.md"
    section = page.read_text().split("\n## Actions\n")[1].split("\n### ")[0]
    code = re.sub(r" *//.*", "", re.search(r"```js\n(.*?)```", section, re.S)[1])
    assert "function markTaken(dose) {" in code, "the page says what `dose` is"
    parts = re.search(r"return act\('markTaken', (\{.*?\}), (\{.*?\})\);", code, re.S)
    assert "v: 1, key: crypto.randomUUID(), type, payload," in code, "the page says what an action has"
    literal = f"{{ v: 1, key: 'KEY', type: 'markTaken', payload: {parts[1]}, base: {parts[2]} }}"
    for call, value in {"'KEY'": str(uuid.uuid4()), "new Date().toISOString()": stamp(),
                        "dose.id": dose["id"], "dose.rev": dose["rev"]}.items():
        assert call in literal, f"the sample no longer has {call}"
        literal = literal.replace(call, json.dumps(value))
    literal = re.sub(r"'([^']*)'", r'"\1"', literal)
    literal = re.sub(r"([{,]\s*)(\w+):", r'\1"\2":', literal)
    return json.loads(re.sub(r",(\s*\})", r"\1", literal))


def test_the_pages_sample_works_from_a_new_device(hub, user):
    identity = add_dose(hub, user)
    caller = Caller(hub, user)
    today = caller.get("today").body
    sample = pages_sample(today["occurrences"][0])
    assert sample["payload"]["occurrenceId"] == identity and sample["base"] == {"rev": 1} and "n" not in sample
    with joined(hub, user) as device:
        result = act(device, sample)
        assert (result["status"], result["result"]["status"]) == ("applied", "taken"), result
        assert same_instant(result["result"]["takenAt"], sample["payload"]["takenAt"])


def test_a_time_of_last_year_is_not_taken_for_todays_dose(hub, user):
    doses = [add_dose(hub, user, status=status) for status in ("scheduled", "missed")]
    last_year = stamp(-365 * 24)
    with joined(hub, user) as device:
        for dose in doses:
            for action, path in [
                    (envelope("markTaken", {"occurrenceId": dose, "takenAt": last_year}), "payload.takenAt"),
                    (envelope("makeUp", {"occurrenceId": dose, "at": last_year}), "payload.at"),
                    (envelope("bulkMarkAll", {"occurrenceIds": [dose], "takenAt": last_year}), "payload.takenAt")]:
                result = act(device, action)
                assert (result["status"], result["code"], result["path"]) == ("rejected", "invalid", path), result
                assert "positions" not in result
    answer = Caller(hub, user).settle(plain("markTaken", {"occurrenceId": doses[0], "takenAt": last_year}))
    assert (answer.status, answer.body["path"]) == (422, "payload.takenAt")
    assert [row(hub, dose)[0] for dose in doses] == ["scheduled", "missed"]


def test_what_was_not_seen_is_not_overwritten(hub, user):
    """Another device has taken the dose and taken that back, and noted something: rev 4, and scheduled as at rev 1."""
    dose = add_dose(hub, user)
    with joined(hub, user) as tablet, joined(hub, user) as phone:
        taken = envelope("markTaken", {"occurrenceId": dose}, base={"rev": 1})
        assert act(tablet, taken)["status"] == "applied"
        assert act(tablet, envelope("undo", {"targetKey": taken["key"]}))["status"] == "applied"
        assert act(tablet, envelope("addNote", {"occurrenceId": dose, "text": "later"}))["result"]["rev"] == 4
        skip = envelope("skip", {"occurrenceId": dose}, base={"rev": 1})
        result = act(phone, skip)
        assert (result["status"], result["code"], result["conflict"]["server"]["rev"]) == ("conflict", "state", 4)
        assert row(hub, dose)[0] == "scheduled"
        assert act(phone, envelope("skip", {"occurrenceId": dose}, base={"rev": 3}))["status"] == "applied"


# A fault in the application's own trigger.


@pytest.mark.parametrize("fault", [
    "perform 1 / 0", "perform from nowhere", "raise 'x' using errcode = 'ZZ999'", "assert false"],
    ids=["zero", "table", "own", "assert"])
def test_a_trigger_that_fails_for_ever_holds_up_no_device(hub, user, fault):
    dose, other = add_dose(hub, user), add_dose(hub, user)
    hub.query(f"""
        create or replace function public.fault() returns trigger language plpgsql as
        $$ begin if new.note = 'poison {user}' then {fault}; end if; return new; end $$;
        create or replace trigger fault before update on care.dose_occurrence for each row
        execute function public.fault()""")
    try:
        with joined(hub, user) as device:
            poison = envelope(
                "addNote", {"occurrenceId": dose, "text": f"poison {user}"}, deviceId="phone", n=1)
            start = device.count()
            device.send("sync:action", poison)
            first = device.wait_for_event("sync:result", start=start).data
            assert first["status"] == "retry", "it may be mended in a moment"
            # While nothing is applied it may be everybody's trouble, and has half a minute.
            neighbour = Caller(hub, f"{user}.neighbour")
            aside = plain("markTaken", {"occurrenceId": add_dose(hub, f"{user}.neighbour")})
            assert neighbour.settle(aside).status == 200
            waiting = act(device, envelope("skip", {"occurrenceId": other}, deviceId="phone", n=2))
            assert (waiting["status"], waiting["code"]) == ("retry", "out_of_order")
            result = act(device, poison)
            assert (result["status"], result["code"]) == ("rejected", "invalid") and "poison" not in result["message"]
            assert act(device, envelope("skip", {"occurrenceId": other}, deviceId="phone", n=2))["status"] == "applied"
            assert act(device, poison) == {**result, "replayed": True}
            assert row(hub, dose) == ("scheduled", None) and row(hub, other)[0] == "skipped"
    finally:
        hub.query("drop trigger fault on care.dose_occurrence")


@pytest.mark.parametrize(
    "lost", [420_000, "1970-01-01T00:00:00Z", "1999-12-31T23:59:59+01:00", "2150-01-01T00:00:00Z"])
def test_a_lost_clock_loses_nothing(hub, user, lost):
    doses = [add_dose(hub, user) for _ in range(4)]
    caller = Caller(hub, user)
    with joined(hub, user) as device:
        assert act(device, envelope("markTaken", {"occurrenceId": doses[0]}, clientTime=lost))["status"] == "applied"
        note = envelope("addNote", {"occurrenceId": doses[0], "text": "n"}, clientTime=lost)
        assert act(device, note)["status"] == "applied"
    by_route = caller.settle(plain("skip", {"occurrenceId": doses[1]}, clientTime=lost))
    queued = caller.settle({"id": str(uuid.uuid4()), "type": "markTaken", "payload": {"occurrenceId": doses[2]},
                               "timestamp": lost})
    bulk = caller.settle(
        {"idempotencyKey": str(uuid.uuid4()), "occurrenceIds": [doses[3]], "timestamp": lost}, route="bulk")
    assert [one.status for one in (by_route, queued, bulk)] == [200, 200, 200], (by_route, queued, bulk)
    assert [row(hub, dose)[0] for dose in doses] == ["taken", "skipped", "taken", "taken"]
    ((taken,),) = hub.query("select max(abs(extract(epoch from taken_at - now()))) from care.dose_occurrence"
                            " where user_id = %s and status = 'taken'", [user])
    assert taken < 3600, "now, and no other time"
    medication = caller.post(
        {"name": "Zinc", "id": str(uuid.uuid4()), "timestamp": lost}, route=f"/users/{user}/medications")
    assert medication.status == 200, medication
    changes = [{"op": "create", "clientId": "tmp-1", "data": {"productId": "zinc", "time": "08:00"}, "timestamp": lost},
               {"op": "update", "id": "tmp-1", "payload": {"time": "08:30"}, "timestamp": lost}]
    answer = caller.post({"changes": changes}, route="/sync/reminders")
    assert [one["status"] for one in answer.body["results"]] == ["applied", "applied"], answer


def test_a_refused_undo_stays_refused(hub, user):
    dose = add_dose(hub, user)
    taken = envelope("markTaken", {"occurrenceId": dose})
    undo = envelope("undo", {"targetKey": taken["key"]})
    with joined(hub, user) as device:
        first = act(device, undo)
        assert (first["status"], first["path"]) == ("rejected", "payload.targetKey") and "numberUsed" not in first
        assert act(device, taken)["status"] == "applied"
        assert act(device, undo) == {**first, "replayed": True}
        assert row(hub, dose)[0] == "taken", "the device was told to drop the undo"
        assert act(device, {**undo, "type": "skip"})["code"] == "key_reused"
        assert act(device, envelope("undo", {"targetKey": taken["key"]}))["status"] == "applied"


def test_an_answer_says_whether_its_number_is_used_up(hub, user):
    """With the number alone, a device would not know which one comes next after a refusal."""
    dose = add_dose(hub, user)
    note = envelope("addNote", {"occurrenceId": dose, "text": "n"}, deviceId="phone", n=1)
    with joined(hub, user) as device:
        def told(action):
            answer = act(device, action)
            return answer.get("code") or answer["status"], answer.get("numberUsed")

        assert told(note) == ("applied", True)
        assert told(note) == ("applied", True)
        assert told({**note, "n": 2}) == ("applied", False), "the repeat has the number that it had first"
        assert told({**note, "n": 2, "type": "skip"}) == ("key_reused", False)
        assert told(envelope("skip", {}, deviceId="phone", n=2)) == ("invalid", True)
        assert told(envelope("skip", {"occurrenceId": dose}, deviceId="phone", n=4)) == ("out_of_order", None)
        assert told(envelope("skip", {"occurrenceId": dose}, deviceId="phone", n=3)) == ("applied", True)
        assert told(envelope("skip", {"occurrenceId": dose})) == ("noop", None)
    by_route = Caller(hub, user).settle(plain("skip", {"occurrenceId": dose}, deviceId="phone", n=4))
    assert by_route.body["_sync"]["numberUsed"] is True
    refused = Caller(hub, user).settle(plain("skip", {}, deviceId="phone", n=5))
    assert (refused.status, refused.body["_sync"]["numberUsed"]) == (422, True)


def test_a_parameter_that_is_given_twice_is_refused(hub, user):
    caller = Caller(hub, user)
    for path, name in [("adherence/today?date=2025-11-14&date=2025-11-15", "date"),
                       ("adherence/month?month=2025-11&month=2025-11", "month"),
                       ("adherence/month?year=2025&month=11&year=2024", "year"),
                       ("adherence/history?limit=1&limit=2", "limit"), ("adherence/export?format=csv&format=json", "format"),
                       ("events?topics=adherence&topics=reminders", "topics")]:
        answer = caller.get(f"/users/{user}/{path}")
        assert answer.status == 400 and name in answer.body["error"], (path, answer)
