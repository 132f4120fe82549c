"""Actions from outside: what two devices and a REST client of a user see of them."""

import datetime
import json
import pathlib
import re
import threading
import uuid

import pytest

import cluster
from actions import Caller, act, add_dose, envelope, plain, row
from device import Device
from hub import Hub
from names import stream
from test_pysher import Client
from waiting import eventually


def joined(hub, user):
    device = Device(hub, token=hub.token(user))
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    return device


def stamp(hours=0):
    """An instant that many hours from now, as JavaScript writes it."""
    then = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03}Z"


def same_instant(one, other):
    return datetime.datetime.fromisoformat(one) == datetime.datetime.fromisoformat(other)


def offset(hub, user):
    (top,), = hub.query(
        "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'adherence'", [user])
    return top


# On the socket.


def test_what_one_device_does_the_other_sees(hub, user):
    dose = add_dose(hub, user)
    with Client(hub) as one, Client(hub) as other:
        for client in (one, other):
            client.pusher.connection.bind(
                "sync:result", lambda data, client=client: client.heard.append((None, "sync:result", data)))
            client.sign_in(user)
            client.subscribe(stream(user), "occurrence.updated", "adherence.summary_updated")
            client.subscribed(stream(user))
        action = envelope("markTaken", {"occurrenceId": dose, "takenAt": stamp()})

        def results():
            return [json.loads(data) for _, event, data in list(one.heard) if event == "sync:result"]

        def is_done():
            one.send("sync:action", action)
            one.answered()
            return any(result["status"] != "retry" for result in results())

        eventually(is_done, "a result that is no retry")
        result = next(result for result in results() if result["status"] != "retry")
        assert (result["key"], result["status"]) == (action["key"], "applied")
        assert (result["result"]["id"], result["result"]["status"]) == (dose, "taken")
        assert same_instant(result["result"]["takenAt"], action["payload"]["takenAt"])
        top = result["positions"][stream(user)]["offset"]
        for client in (one, other):
            eventually(lambda client=client: len(client.events(stream(user))) >= 2, "the events of the action")
            (_, updated), (name, summary) = client.events(stream(user))[-2:]
            assert (updated["occurrenceId"], updated["updates"]["status"]) == (dose, "taken")
            assert updated["_sync"] == {"o": top - 1, "k": action["key"]}
            assert name == "adherence.summary_updated" and summary["_sync"] == {"o": top, "k": action["key"]}
            assert summary["summary"]["takenCount"] == 1
            assert set(summary["stats"]) >= {"currentStreakDays", "bestStreakDays", "avg30DaysPct", "doses30Pct"}
        assert not any(event == "sync:result" for _, event, _ in other.heard), "results are the sender's alone"


def test_a_repeat_gets_the_answer_again_and_changes_nothing(hub, user):
    dose = add_dose(hub, user)
    with joined(hub, user) as one, joined(hub, user) as other:
        action = envelope("markTaken", {"occurrenceId": dose}, deviceId="phone", n=1)
        first = act(one, action)
        assert first["status"] == "applied" and "replayed" not in first
        top = offset(hub, user)
        again = act(one, action)
        # From any device, and however the same thing is written.
        elsewhere = act(other, {**action, "payload": dict(reversed(action["payload"].items()))})
        assert again == elsewhere == {**first, "replayed": True}
        assert offset(hub, user) == top
        used = act(one, {**action, "type": "skip"})
        assert (used["status"], used["code"]) == ("rejected", "key_reused")
        assert row(hub, dose)[0] == "taken"


def test_the_same_key_from_two_devices_at_once(hub, user):
    dose = add_dose(hub, user)
    with joined(hub, user) as one, joined(hub, user) as other:
        act(one, envelope("addNote", {"occurrenceId": dose, "text": "up"}))
        top = offset(hub, user)
        action = envelope("markTaken", {"occurrenceId": dose})
        results = []
        threads = [threading.Thread(target=lambda device=device: results.append(act(device, action)))
                   for device in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(result.get("replayed", False) for result in results) == [False, True]
        assert [result["status"] for result in results] == ["applied", "applied"]
        assert offset(hub, user) == top + 2


def test_a_devices_actions_keep_their_order(hub, user):
    dose = add_dose(hub, user)
    with joined(hub, user) as device:
        first = act(device, envelope("skip", {"occurrenceId": dose}, deviceId="phone", n=1))
        assert first["status"] == "applied"
        early = act(device, envelope("undo", {"targetKey": first["key"]}, deviceId="phone", n=3))
        assert (early["status"], early["code"], early["expected"]) == ("retry", "out_of_order", 2)
        assert row(hub, dose)[0] == "skipped"
        # A phone restored from a backup counts from the start again: it keeps its key and renumbers.
        restored = envelope("undo", {"targetKey": first["key"]}, deviceId="phone", n=1)
        answer = act(device, restored)
        assert (answer["status"], answer["code"], answer["expected"]) == ("retry", "out_of_order", 2)
        assert act(device, {**restored, "n": 2})["status"] == "applied"
        assert row(hub, dose)[0] == "scheduled"


def test_a_conflict_says_what_is_needed_to_decide(hub, user):
    dose = add_dose(hub, user)
    with joined(hub, user) as one, joined(hub, user) as other:
        seen = hub.query("select rev from care.dose_occurrence where id = %s", [dose])[0][0]
        taken = envelope("markTaken", {"occurrenceId": dose}, deviceId="tablet")
        assert act(one, taken)["status"] == "applied"
        skip = envelope("skip", {"occurrenceId": dose, "reason": "felt unwell"}, base={"rev": seen})
        result = act(other, skip)
        assert (result["status"], result["code"]) == ("conflict", "state")
        conflict = result["conflict"]
        assert conflict["entity"] == {"type": "dose", "id": dose}
        assert conflict["server"]["status"] == "taken"
        assert conflict["server"]["changedBy"]["key"] == taken["key"]
        assert conflict["server"]["changedBy"]["deviceId"] == "tablet"
        assert conflict["base"]["status"] == "scheduled" and conflict["local"]["status"] == "skipped"
        assert [field["name"] for field in conflict["fields"]][0] == "status"
        assert conflict["options"] == ["keep_local", "accept_server", "merge"]
        # A person decides.
        kept = act(other, envelope(
            "resolve", {"of": skip["key"], "choice": "keep_local"}, base={"rev": conflict["server"]["rev"]}))
        assert kept["status"] == "applied" and kept["result"]["status"] == "skipped"
        assert row(hub, dose)[0] == "skipped"


def test_notes_merge_and_travel_in_no_event(hub, user):
    dose = add_dose(hub, user)
    secret = f"with milk {uuid.uuid4()}"
    with joined(hub, user) as one, joined(hub, user) as other:
        assert act(one, envelope("markTaken", {"occurrenceId": dose}))["status"] == "applied"
        noted = act(one, envelope("addNote", {"occurrenceId": dose, "text": secret}, base={"rev": 1}))
        assert noted["status"] == "applied" and noted["result"]["note"] == secret
        assert noted["result"]["status"] == "taken"
        other.wait_for(
            lambda frame: frame.event == "occurrence.updated" and frame.data["updates"]["hasNote"], "hasNote")
        other.answered()
        assert secret not in other.everything()
        assert not any(secret in frame.text for frame in one.events(stream(user)))


def test_who_has_not_signed_in_is_told_to(hub, user):
    dose = add_dose(hub, user)
    action = envelope("markTaken", {"occurrenceId": dose})
    with Device(hub) as device:
        device.send("sync:action", action)
        result = device.wait_for_event("sync:result").data
        assert (result["key"], result["status"], result["code"]) == (action["key"], "retry", "unavailable")
        assert result["afterMs"] == 1000
        device.send("sync:action", {"type": "markTaken", "payload": {}})
        assert device.complaint().data["code"] is None
        device.sign_in(user)
        device.signed_in()
        assert act(device, action)["status"] == "applied"


def test_a_stranger_cannot_touch_a_dose(hub, user):
    dose = add_dose(hub, user)
    with joined(hub, user + "x") as stranger:
        result = act(stranger, envelope("markTaken", {"occurrenceId": dose}))
        assert (result["status"], result["code"]) == ("conflict", "gone")
        assert result["conflict"]["server"] is None
    assert row(hub, dose)[0] == "scheduled"


# By HTTP.


def test_the_seeds_client_gets_the_occurrence_itself(hub, user):
    dose = add_dose(hub, user)
    caller = Caller(hub, user)
    with joined(hub, user) as device:
        body = plain("markTaken", {"occurrenceId": dose, "takenAt": stamp()})
        answer = caller.settle(body)
        assert answer.status == 200
        assert (answer.body["id"], answer.body["userId"], answer.body["status"]) == (dose, user, "taken")
        assert answer.body["scheduledAt"] and answer.body["windowEnd"] and answer.body["productId"] == "zinc"
        sync = answer.body["_sync"]
        assert (sync["status"], sync["replayed"]) == ("applied", False)
        event = device.wait_for_event("occurrence.updated").data
        assert event["_sync"] == {"o": sync["positions"][stream(user)]["offset"] - 1, "k": body["idempotencyKey"]}
        again = caller.settle(body)
        assert again.status == 200 and again.body == {**answer.body, "_sync": {**sync, "replayed": True}}


def test_an_entry_of_the_seeds_offline_queue(hub, user):
    """Replayed late, with the time at which it was queued, and the revision that the screen showed."""
    dose = add_dose(hub, user, hours=-3, status="missed")
    queued = {"id": str(uuid.uuid4()), "type": "markTaken", "payload": {"occurrenceId": dose}, "timestamp": stamp(-2.9)}
    answer = Caller(hub, user).settle({
        "idempotencyKey": queued["id"], "actionType": queued["type"], "payload": queued["payload"],
        "timestamp": queued["timestamp"], "rev": 1})
    assert answer.status == 200 and answer.body["status"] == "taken"
    assert same_instant(answer.body["takenAt"], queued["timestamp"])


def test_statuses_of_http(hub, user):
    dose, later = add_dose(hub, user), add_dose(hub, user, hours=5)
    caller = Caller(hub, user)
    assert caller.settle(plain("markTaken", {"occurrenceId": dose})).status == 200
    assert caller.settle(plain("markTaken", {"occurrenceId": dose})).body["_sync"]["status"] == "noop"

    conflict = caller.settle(plain("skip", {"occurrenceId": dose}))
    assert conflict.status == 409 and conflict.body["code"] == "state" and conflict.body["error"]
    assert conflict.body["conflict"]["server"]["status"] == "taken"
    assert conflict.body["_sync"]["status"] == "conflict"

    for payload, path in [
            ({"occurrenceId": dose, "takenAt": "yesterday"}, "payload.takenAt"),
            ({"takenAt": stamp()}, "payload.occurrenceId"),
            ({"occurrenceId": dose, "takenAt": stamp(1)}, "payload.takenAt"),
            ({"occurrenceId": dose, "note": 7}, "payload.note")]:
        invalid = caller.settle(plain("markTaken", payload))
        assert (invalid.status, invalid.body["code"], invalid.body["path"]) == (422, "invalid", path), invalid
        assert invalid.body["error"]
    early = caller.settle(plain("markMissed", {"occurrenceId": later}))
    assert (early.status, early.body["code"]) == (422, "not_due")
    swallow = plain("swallow", {"occurrenceId": dose})
    for _ in range(2):
        unknown = caller.settle(swallow)
        assert (unknown.status, unknown.body["path"]) == (422, "actionType")

    key = str(uuid.uuid4())
    assert caller.settle(plain("addNote", {"occurrenceId": dose, "text": "a"}, key)).status == 200
    reused = caller.settle(plain("addNote", {"occurrenceId": dose, "text": "b"}, key))
    assert (reused.status, reused.body["code"]) == (422, "key_reused")

    gap = caller.settle(plain("addNote", {"occurrenceId": dose, "text": "c"}, deviceId="phone", n=9))
    assert (gap.status, gap.body["code"], gap.body["expected"]) == (503, "out_of_order", 1)
    assert int(gap.headers["Retry-After"]) >= 1
    assert row(hub, dose) == ("taken", "a") and row(hub, later)[0] == "scheduled"


def test_a_field_at_fault_is_called_what_the_client_called_it(hub, user):
    dose = add_dose(hub, user)
    caller = Caller(hub, user)

    def path(body, route="actions"):
        answer = caller.settle({"idempotencyKey": str(uuid.uuid4()), **body}, route=route)
        assert (answer.status, answer.body["code"]) == (422, "invalid"), answer
        return answer.body["path"]

    plain_ones = {"actionType": "skip", "payload": {"occurrenceId": dose}}
    for wrong, name in [({"rev": "x"}, "rev"), ({"base": {"rev": "x"}}, "base"), ({"base": 7, "rev": 1}, "base"),
                        ({"timestamp": "x"}, "timestamp"), ({"clientTime": "x"}, "clientTime"), ({"tz": 7}, "tz"),
                        ({"actionType": 7}, "actionType"), ({"actionType": "x" * 65}, "actionType")]:
        assert path({**plain_ones, **wrong}) == name
    for bulk, name in [({}, "occurrenceIds"), ({"occurrenceIds": 7}, "occurrenceIds"),
                       ({"occurrenceIds": ["a", 7]}, "occurrenceIds[1]"), ({"criteria": {"date": 7}}, "criteria.date"),
                       ({"occurrenceIds": ["a"], "takenAt": "x"}, "takenAt"),
                       ({"payload": {"occurrenceIds": 7}}, "payload.occurrenceIds")]:
        assert path(bulk, "bulk") == name
    envelope = caller.settle({"key": str(uuid.uuid4()), "type": "swallow", "payload": {}, "actionType": "skip"})
    assert (envelope.status, envelope.body["path"]) == (422, "type")
    assert row(hub, dose)[0] == "scheduled"


def test_an_envelope_is_answered_as_on_the_socket(hub, user):
    dose = add_dose(hub, user)
    action = envelope("markTaken", {"occurrenceId": dose}, deviceId="phone", n=1, base={"rev": 1})
    answer = Caller(hub, user).settle(action)
    assert answer.status == 200 and answer.body["status"] == "applied" and answer.body["key"] == action["key"]
    with joined(hub, user) as device:
        assert act(device, action) == {**answer.body, "replayed": True}
    conflict = Caller(hub, user).settle(envelope("skip", {"occurrenceId": dose}))
    assert conflict.status == 409 and conflict.body["status"] == "conflict"
    late = Caller(hub, user).settle(envelope("resolve", {"of": conflict.body["key"], "choice": "accept_server"}))
    assert late.status == 200 and late.body["status"] == "noop"


def test_the_key_in_the_field(hub, user):
    dose = add_dose(hub, user)
    caller = Caller(hub, user)
    body = {"actionType": "markTaken", "payload": {"occurrenceId": dose}}
    first = caller.settle(body, **{"Idempotency-Key": "key-of-the-field"})
    assert first.status == 200 and first.body["_sync"]["replayed"] is False
    again = caller.settle(body, **{"Idempotency-Key": "key-of-the-field"})
    assert again.status == 200 and again.body["_sync"]["replayed"] is True
    assert caller.post(body).status == 400


def test_bulk_and_its_undo(hub, user):
    doses = [add_dose(hub, user, hours=-hour) for hour in range(3)]
    taken_already, future = add_dose(hub, user), add_dose(hub, user, hours=6)
    caller = Caller(hub, user)
    assert caller.settle(plain("skip", {"occurrenceId": taken_already})).status == 200
    body = {"idempotencyKey": str(uuid.uuid4()), "occurrenceIds": [*doses, taken_already, future]}
    answer = caller.settle(body, route="bulk")
    assert answer.status == 200 and answer.body["_sync"]["status"] == "partial"
    assert answer.body["counts"] == {"applied": 3, "noop": 0, "conflict": 1, "rejected": 1}
    assert [item["status"] for item in answer.body["items"]] == [*["applied"] * 3, "conflict", "rejected"]
    assert answer.body["items"][0]["occurrence"]["status"] == "taken"
    again = caller.settle(body, route="bulk")
    assert again.body == {**answer.body, "_sync": {**answer.body["_sync"], "replayed": True}}
    # One of them changes by another hand; the rest come back.
    hub.query("update care.dose_occurrence set status = 'missed', taken_at = null where id = %s", [doses[1]])
    undone = caller.settle(plain("undo", {"targetKey": body["idempotencyKey"]}))
    assert undone.status == 200 and undone.body["_sync"]["status"] == "partial"
    assert {item["occurrenceId"]: item.get("code", item["status"]) for item in undone.body["items"]} == {
        doses[0]: "applied", doses[1]: "superseded", doses[2]: "applied"}
    assert [row(hub, dose)[0] for dose in doses] == ["scheduled", "missed", "scheduled"]


def test_bulk_by_criteria_takes_what_is_due(hub, user):
    due, future = add_dose(hub, user), add_dose(hub, user, hours=6)
    (date,), = hub.query("select local_date::text from care.dose_occurrence where id = %s", [due])
    caller = Caller(hub, user)
    answer = caller.settle(
        {"idempotencyKey": str(uuid.uuid4()), "criteria": {"date": date, "productId": "zinc"}}, route="bulk")
    assert answer.status == 200 and [item["occurrenceId"] for item in answer.body["items"]] == [due]
    assert row(hub, due)[0] == "taken" and row(hub, future)[0] == "scheduled"
    none = caller.settle({"idempotencyKey": str(uuid.uuid4()), "criteria": {"date": "2001-02-03"}}, route="bulk")
    assert none.status == 200 and none.body["items"] == [] and none.body["_sync"]["status"] == "noop"
    for body in ({"occurrenceIds": []}, {"occurrenceIds": [due], "criteria": {}}, {}):
        answer = caller.settle({"idempotencyKey": str(uuid.uuid4()), **body}, route="bulk")
        assert (answer.status, answer.body["code"]) == (422, "invalid"), answer


def test_undo_restores(hub, user):
    dose = add_dose(hub, user)
    caller = Caller(hub, user)
    skip = plain("skip", {"occurrenceId": dose, "reason": "travelling", "note": "no zinc at hand"})
    assert caller.settle(skip).body["reason"] == "travelling"
    undo = plain("undo", {"targetKey": skip["idempotencyKey"]})
    answer = caller.settle(undo)
    assert answer.status == 200
    assert (answer.body["status"], answer.body["reason"], answer.body["note"]) == ("scheduled", None, None)
    assert caller.settle(undo).body["_sync"]["replayed"] is True
    assert caller.settle(plain("undo", {"targetKey": skip["idempotencyKey"]})).body["_sync"]["status"] == "noop"
    missing = caller.settle(plain("undo", {"targetKey": "no such key"}))
    assert (missing.status, missing.body["path"]) == (422, "payload.targetKey")


def test_nobody_acts_for_another(hub, user):
    dose = add_dose(hub, user)
    body = plain("markTaken", {"occurrenceId": dose})
    for token in ("", "garbage", hub.token(user, exp=1)):
        assert Caller(hub, user, token=token).post(body).status == 401
    stranger = Caller(hub, user + "x")
    assert stranger.post(body, user=user).status == 403
    assert stranger.settle(body).status == 409, "their own doses do not include it"
    assert row(hub, dose)[0] == "scheduled"


@pytest.mark.parametrize("name", ["Zoë/1", "a.b@example.org", "with space", "per%cent", "日本"])
def test_users_of_any_name(hub, user, name):
    owner = f"{name} {user}"
    dose = add_dose(hub, owner)
    answer = Caller(hub, owner).settle(plain("markTaken", {"occurrenceId": dose}))
    assert answer.status == 200 and answer.body["userId"] == owner
    assert list(answer.body["_sync"]["positions"]) == [stream(owner)]


def test_what_is_no_action(hub, user):
    caller = Caller(hub, user)
    for body in (b"", b"{", b"[]", b"null", b"{}", b'{"idempotencyKey": ""}', b"\xff"):
        assert caller.post(body).status == 400, body
    assert caller.post({}, **{"Content-Type": "text/plain"}).status == 415
    assert caller.post(b" " * 300_000).status == 413
    assert caller.post({}, route="nothing").status == 404


def test_rates(user):
    with Hub("--limits-actions-per-second", "1", "--limits-actions-burst", "3") as hub:
        hub.wait_until_listening()
        dose = add_dose(hub, user)
        caller = Caller(hub, user)

        def note(number):
            return plain("addNote", {"occurrenceId": dose, "text": f"note {number}"})

        assert caller.settle(note(0)).status == 200
        answers = []
        # As many as the burst has, and the seconds that this takes, and one more: some are told to wait.
        eventually(lambda: answers.append(caller.post(note(len(answers) + 1))) or answers[-1].status == 429,
                   "a refusal of the bucket")
        refused = answers[-1]
        assert refused.body["code"] == "busy" and int(refused.headers["Retry-After"]) >= 1
        assert refused.body["_sync"]["afterMs"] > 0
        # Others are not concerned, and what was told to wait is done when it comes again.
        assert Caller(hub, user + "x").settle(plain("skip", {"occurrenceId": "none"})).status == 409
        assert caller.settle(note(len(answers))).status == 200


def test_while_the_database_is_away_and_after_it(user):
    with Hub() as hub:
        hub.wait_until_listening()
        dose = add_dose(hub, user)
        action = envelope("markTaken", {"occurrenceId": dose})
        with joined(hub, user) as device:
            assert act(device, envelope("addNote", {"occurrenceId": dose, "text": "up"}))["status"] == "applied"
            cluster.crash(hub.folder)
            try:
                device.send("sync:action", action)
                result = device.wait_for(
                    lambda frame: frame.event == "sync:result" and frame.data["key"] == action["key"], "a retry").data
                assert (result["status"], result["code"]) == ("retry", "unavailable") and result["afterMs"] > 0
                answer = Caller(hub, user).post(action)
                assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1
            finally:
                cluster.start(hub.folder)
            assert act(device, action)["status"] == "applied"
            assert row(hub, dose)[0] == "taken"


def test_the_hub_ends_with_actions_under_way(user):
    with Hub() as hub:
        hub.wait_until_listening()
        dose = add_dose(hub, user)
        with joined(hub, user) as device:
            assert act(device, envelope("skip", {"occurrenceId": dose}))["status"] == "applied"
            keys = []
            for number in range(50):
                action = envelope("addNote", {"occurrenceId": dose, "text": f"note {number}"})
                keys.append(action["key"])
                device.send("sync:action", action)
            device.wait_for_event("sync:result")
            assert hub.stop() == 0
            assert device.closed() == 1001
            told = {frame.data["key"]: frame.data["status"] for frame in device.frames if frame.event == "sync:result"}
            assert set(told.values()) <= {"applied", "retry"}
            hub.start()
            stored = {key for key, in hub.query("select key from sync.action where user_id = %s", [user])}
            # Nothing that was told is lost, and what was not told is asked again.
            assert {key for key, status in told.items() if status == "applied"} <= stored
            with joined(hub, user) as later:
                for key in keys:
                    text = f"note {keys.index(key)}"
                    again = act(later, envelope("addNote", {"occurrenceId": dose, "text": text}, key))
                    assert again["status"] == "applied" and again.get("replayed", False) == (key in stored)
            (count,), = hub.query("select count(*) from care.dose_note where occurrence_id = %s", [dose])
            assert count == len(keys)


# The page's sample.


def pages_sample(dose):
    """The action of the page on the wire, as a browser would send it for `dose`; without its comments it is all but JSON."""
    page = pathlib.Path(__file__).parents[2] / "Sources" / "README.md"
    section = page.read_text().split("\n### Actions\n")[1].split("\n### ")[0]
    code = re.sub(r" *//.*", "", re.search(r"```js\n(.*?)```", section, re.S)[1])
    assert "const dose = today.occurrences[0];" in code, "the page says what `dose` is"
    literal = re.search(r"pusher\.send_event\('sync:action', (\{.*\})\);", code, re.S)[1]
    for call, value in {"crypto.randomUUID()": str(uuid.uuid4()), "new Date().toISOString()": stamp(),
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
    assert sample["payload"]["occurrenceId"] == identity and sample["base"] == {"rev": 1} and sample["n"] == 1
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
            waiting = act(device, envelope("skip", {"occurrenceId": other}, deviceId="phone", n=2))
            assert (waiting["status"], waiting["code"]) == ("retry", "out_of_order")
            result = act(device, poison)
            assert (result["status"], result["code"]) == ("rejected", "invalid") and "poison" not in result["message"]
            assert act(device, envelope("skip", {"occurrenceId": other}, deviceId="phone", n=2))["status"] == "applied"
            assert act(device, poison) == {**result, "replayed": True}
            assert row(hub, dose) == ("scheduled", None) and row(hub, other)[0] == "skipped"
    finally:
        hub.query("drop trigger fault on care.dose_occurrence")
