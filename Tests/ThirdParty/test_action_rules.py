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
    assert "function markTaken(dose, key = crypto.randomUUID()) {" in code, "the page says what `dose` and `key` are"
    literal = re.search(r"pusher\.send_event\('sync:action', (\{.*\})\);", code, re.S)[1]
    assert "key, type" in literal
    literal = literal.replace("key, type", "key: 'KEY', type")
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
                    (envelope("markTaken", {"occurrenceId": dose}, clientTime=last_year), "clientTime"),
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
