"""Actions on the socket: what two devices of a user see of them."""

import json
import threading
import uuid

import cluster
from actions import Caller, act, add_dose, envelope, joined, offset, plain, row, same_instant, stamp
from device import Device
from hub import Hub
from names import stream
from test_pysher import Client
from waiting import eventually


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


def test_an_action_without_a_sign_in_is_refused(hub, user):
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


def test_rates(user):
    with Hub("--limits-actions-per-second", "1") as hub:
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
