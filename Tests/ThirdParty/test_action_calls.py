"""Actions by HTTP: what a REST client of a user sees of them."""

import uuid

import pytest

from actions import Caller, act, add_dose, envelope, joined, plain, row, same_instant, stamp
from names import stream


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
            ({"occurrenceId": dose, "takenAt": stamp(25)}, "payload.takenAt"),
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
    # None ended so long ago that the hub has missed it.
    doses = [add_dose(hub, user, hours=hours) for hours in (0, -1, -1)]
    taken_already, future = add_dose(hub, user), add_dose(hub, user, hours=48)
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
    with joined(hub, user) as device:
        # The socket's clients write what they have no value for as null.
        payload = {"occurrenceIds": body["occurrenceIds"], "criteria": None, "takenAt": None}
        told = act(device, envelope("bulkMarkAll", payload, body["idempotencyKey"]))
        assert (told["status"], told["replayed"], told["result"]["counts"]) == ("partial", True, answer.body["counts"])
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
