"""Medications as an app's clients manage them: by HTTP and on the socket, seen by another device on both channels."""

import contextlib
import datetime
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest
from actions import Answer, act, envelope, stamp
from device import Device
from names import stream
from waiting import PATIENCE, eventually

TOPICS = ("medications", "adherence")


class Rest:
    """A REST client of one user, at the user's own resources."""

    def __init__(self, hub, user):
        self.hub = hub
        self.user = user
        self.token = hub.token(user)

    def ask(self, method, path, body=None, **headers):
        """One request, its answer whatever the status; again while the hub says `retry`."""
        return eventually(
            lambda: next((answer for answer in [self._ask(method, path, body, headers)]
                          if answer.status not in (429, 503)), None), f"{method} {path}")

    def _ask(self, method, path, body, headers):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.hub.port}/users/{urllib.parse.quote(self.user, safe='')}/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, answer.headers, answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read() or b"null")


@pytest.fixture
def rest(hub, user):
    return Rest(hub, user)


@contextlib.contextmanager
def watching(hub, user):
    """A second device of the user's, in both streams."""
    with Device(hub, token=hub.token(user)) as device:
        for topic in TOPICS:
            device.subscribe(stream(user, topic))
            device.subscribed(stream(user, topic))
        yield device


def heard(device, user, key, topic="medications"):
    """Waits until an action's events of a topic are there, as its answer's position says; their names and data."""
    return [(frame.event, frame.data) for frame in device.events(stream(user, topic))
            if frame.data["_sync"]["k"] == key]


def caught_up(device, user, answer):
    """Waits for all events up to the positions that an answer names."""
    for channel, position in answer["positions"].items():
        if position["offset"] and channel.rsplit(".", 1)[1] in TOPICS:
            device.wait_for(
                lambda frame, channel=channel, position=position:
                frame.channel == channel and isinstance(frame.data, dict)
                and frame.data.get("_sync", {}).get("o") == position["offset"], f"{channel} up to {position}")


def tomorrow():
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).date().isoformat()


def doses(rest, day):
    return rest.ask("GET", f"adherence/today?date={day}").body["occurrences"]


def test_a_medication_from_its_creation_to_its_archiving(hub, user, rest):
    medication, key = str(uuid.uuid4()), str(uuid.uuid4())
    body = {"id": medication, "name": "Ibuprofen", "strength": "400 mg", "form": "tablet", "frequency": "twice_daily",
            "times": ["08:00", "20:00"], "dose": "1 tablet", "idempotencyKey": key}
    with watching(hub, user) as device:
        created = rest.ask("POST", "medications", body)
        assert created.status == 200, created
        assert (created.body["name"], created.body["frequency"], created.body["rev"]) == ("Ibuprofen", "twice_daily", 1)
        assert set(created.body["_sync"]["positions"]) == {stream(user, topic) for topic in TOPICS}
        caught_up(device, user, created.body["_sync"])
        (name, told), = heard(device, user, key)
        assert name == "medication.created"
        assert {**told, "_sync": None} == {**created.body, "_sync": None}
        assert {event for event, _ in heard(device, user, key, "adherence")} == {
            "occurrence.created", "adherence.summary_updated"}

        again = rest.ask("POST", "medications", body)
        assert again.status == 200 and again.body["_sync"]["replayed"] is True
        assert len(doses(rest, tomorrow())) == 2, "a repeat plans nothing again"
        first = doses(rest, tomorrow())[0]
        assert (first["productName"], first["strength"], first["form"], first["dose"], first["asNeeded"]) == (
            "Ibuprofen", "400 mg", "tablet", "1 tablet", False)

        renamed = rest.ask("PATCH", f"medications/{medication}", {"name": "Ibu", "rev": 1})
        assert renamed.status == 200 and renamed.body["rev"] == 2
        assert {dose["productName"] for dose in doses(rest, tomorrow())} == {"Ibu"}
        clash = str(uuid.uuid4())
        stale = rest.ask("PATCH", f"medications/{medication}", {"name": "Other", "rev": 1, "idempotencyKey": clash})
        assert stale.status == 409 and stale.body["conflict"]["server"]["name"] == "Ibu"
        assert stale.body["conflict"]["fields"] == [{"name": "name", "base": None, "server": "Ibu", "local": "Other"}]
        kept = act(device, envelope("resolve", {"of": clash, "choice": "keep_local"}))
        assert (kept["status"], kept["result"]["name"], kept["result"]["rev"]) == ("applied", "Other", 3)
        assert set(kept["positions"]) == {stream(user, topic) for topic in (*TOPICS, "reminders")}
        caught_up(device, user, kept)
        assert [told["name"] for _, told in heard(device, user, kept["key"])] == ["Other"]
        assert {dose["productName"] for dose in doses(rest, tomorrow())} == {"Other"}

        gone = rest.ask("DELETE", f"medications/{medication}")
        assert gone.status == 200 and gone.body["archivedAt"]
        caught_up(device, user, gone.body["_sync"])
        event, data = [(frame.event, frame.data) for frame in device.events(stream(user, "medications"))][-1]
        assert (event, data["id"], data["rev"]) == ("medication.deleted", medication, 4)
        assert rest.ask("GET", "medications").body["items"] == []
        assert doses(rest, tomorrow()) == []
        assert rest.ask("GET", f"medications/{medication}").body["archivedAt"]
        assert rest.ask("GET", "medications/nothing").status == 404


def test_an_entry_sent_back_whole_is_one_action_by_every_way(hub, user, rest):
    """Its rev is what the device saw, by the route and by the socket; after a lost answer either way is a repeat."""
    medication, key, other = (str(uuid.uuid4()) for _ in range(3))
    made = rest.ask("POST", "medications", {"id": medication, "name": "Zinc"}).body
    assert rest.ask("PATCH", f"medications/{medication}", {"name": "Zinc 10", "rev": 1}).body["rev"] == 2
    shown = {name: value for name, value in made.items() if name != "_sync"} | {"name": "Zinc 25"}
    with Device(hub, token=hub.token(user)) as device:
        stale = rest.ask("PATCH", f"medications/{medication}", {**shown, "idempotencyKey": key})
        assert (stale.status, stale.body["code"]) == (409, "state")
        again = act(device, envelope("updateMedication", shown, key))
        assert (again["code"], again["replayed"], again["conflict"]) == ("state", True, stale.body["conflict"])
        first = act(device, envelope("updateMedication", shown, other))
        assert (first["status"], first["code"]) == ("conflict", "state")
        again = rest.ask("PATCH", f"medications/{medication}", {**shown, "idempotencyKey": other})
        assert again.status == 409 and again.body["_sync"]["replayed"] is True
        assert again.body["conflict"] == first["conflict"]
        seen = act(device, envelope("updateMedication", {**shown, "rev": 2}))
        assert (seen["status"], seen["result"]["name"]) == ("applied", "Zinc 25")


def test_a_schedule_is_made_moved_paused_and_deleted(hub, user, rest):
    medication, schedule = str(uuid.uuid4()), str(uuid.uuid4())
    with watching(hub, user) as device:
        made = act(device, envelope("createMedication", {"id": medication, "name": "Zinc"}))
        assert made["status"] == "applied"
        key = str(uuid.uuid4())
        answer = act(device, envelope("createSchedule", {"id": schedule, "productId": medication, "time": "07:30"}, key))
        assert (answer["status"], answer["result"]["repeat"], answer["result"]["rev"]) == ("applied", "daily", 1)
        caught_up(device, user, answer)
        (event, told), = heard(device, user, key)
        assert (event, told["rev"], told["frequency"]) == ("medication.updated", 2, "daily")
        assert [inside["id"] for inside in told["schedules"]] == [schedule]
        (dose,) = doses(rest, tomorrow())
        assert dose["timeLocal"].split("T")[1].startswith("07:30")

        moved = rest.ask("PATCH", f"schedules/{schedule}", {"time": "09:00", "rev": 1})
        assert moved.status == 200 and moved.body["rev"] == 2
        assert [dose["timeLocal"].split("T")[1][:5] for dose in doses(rest, tomorrow())] == ["09:00"]
        paused = rest.ask("PATCH", f"schedules/{schedule}", {"enabled": False})
        assert paused.status == 200 and doses(rest, tomorrow()) == []
        assert rest.ask("PATCH", f"schedules/{schedule}", {"enabled": True}).status == 200
        (back,) = doses(rest, tomorrow())
        assert back["timeLocal"].split("T")[1].startswith("09:00")
        assert [inside["id"] for inside in rest.ask("GET", "schedules").body["items"]] == [schedule]
        assert rest.ask("DELETE", f"schedules/{schedule}").status == 200
        assert doses(rest, tomorrow()) == [] and rest.ask("GET", f"schedules/{schedule}").status == 404
        wrong = rest.ask("POST", "schedules", {"id": "x", "productId": medication, "time": "25:00"})
        assert (wrong.status, wrong.body["path"]) == (422, "time")


def test_a_stack_and_its_items(hub, user, rest):
    items = [str(uuid.uuid4()) for _ in range(2)]
    stack = str(uuid.uuid4())
    with watching(hub, user) as device:
        for item in items:
            assert rest.ask("POST", "medications", {"id": item, "name": item[:4]}).status == 200
        made = rest.ask("POST", "stacks", {"id": stack, "name": "Morning", "items": [{"productId": items[0], "dose": "2"}]})
        assert made.status == 200 and made.body["rev"] == 1
        assert rest.ask("POST", "schedules", {"id": str(uuid.uuid4()), "stackId": stack, "time": "08:00"}).status == 200
        assert [(dose["productId"], dose["dose"]) for dose in doses(rest, tomorrow())] == [(items[0], "2")]
        both = rest.ask("PATCH", f"stacks/{stack}", {"items": [{"productId": item} for item in items], "rev": 1})
        assert both.status == 200 and both.body["rev"] == 3
        assert {dose["productId"] for dose in doses(rest, tomorrow())} == set(items)
        gone = rest.ask("DELETE", f"stacks/{stack}")
        assert gone.status == 200 and doses(rest, tomorrow()) == []
        caught_up(device, user, gone.body["_sync"])
        names = [frame.event for frame in device.events(stream(user, "medications")) if frame.data["id"] == stack]
        assert names == ["stack.created", "stack.updated", "stack.updated", "stack.deleted"]
        assert rest.ask("GET", "stacks").body["items"] == []


def test_a_user_travels(hub, user, rest):
    assert rest.ask("GET", "settings").body["timezone"] == "UTC"
    with watching(hub, user) as device:
        assert rest.ask("PATCH", "settings", {"timezone": "Europe/Berlin"}).status == 200
        medication = str(uuid.uuid4())
        assert rest.ask("POST", "medications", {
            "id": medication, "name": "Iron", "frequency": "daily", "times": ["12:00"]}).status == 200
        (before,) = [dose for dose in doses(rest, tomorrow()) if dose["productId"] == medication]
        moved = rest.ask("PATCH", "settings", {"timezone": "Europe/Lisbon"})
        assert moved.status == 200 and moved.body["timezone"] == "Europe/Lisbon"
        caught_up(device, user, moved.body["_sync"])
        (after,) = [dose for dose in doses(rest, tomorrow()) if dose["productId"] == medication]
        assert (after["id"], after["timezone"]) == (before["id"], "Europe/Lisbon")
        assert after["timeLocal"].split("T")[1].startswith("12:00") and after["scheduledAt"] != before["scheduledAt"]
        events = [frame.event for frame in device.events(stream(user, "medications"))]
        assert events.count("settings.updated") == 2
        unknown = rest.ask("PATCH", "settings", {"timezone": "Mars/Phobos"})
        assert (unknown.status, unknown.body["path"]) == (422, "timezone")


def test_an_intake_as_needed_is_logged_once_and_undone(hub, user, rest):
    medication, dose = str(uuid.uuid4()), str(uuid.uuid4())
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    with watching(hub, user) as device:
        assert rest.ask("POST", "medications", {"id": medication, "name": "Drops", "frequency": "as_needed"}).status == 200
        assert doses(rest, tomorrow()) == []
        action = envelope("logDose", {"id": dose, "productId": medication, "takenAt": stamp(), "dose": "3", "note": "n"})
        logged = act(device, action)
        assert (logged["status"], logged["result"]["asNeeded"], logged["result"]["dose"]) == ("applied", True, "3")
        assert act(device, action) == {**logged, "replayed": True}
        assert act(device, envelope("logDose", action["payload"]))["status"] == "noop"
        caught_up(device, user, logged)
        assert [event for event, _ in heard(device, user, action["key"], "adherence")] == [
            "occurrence.created", "adherence.summary_updated"]
        shown = rest.ask("GET", "adherence/today").body
        assert [one["id"] for one in shown["occurrences"] if one["localDate"] == today] in ([dose], [])
        assert shown["summary"]["takenCount"] == 0 and shown["stats"]["currentStreakDays"] == 0
        undone = act(device, envelope("undo", {"targetKey": action["key"]}))
        assert (undone["status"], undone["result"]["status"]) == ("applied", "cancelled")
        assert dose not in [one["id"] for one in rest.ask("GET", "adherence/today").body["occurrences"]]


def test_the_list_is_a_snapshot_with_position_and_tag(hub, user, rest):
    assert rest.ask("POST", "medications", {"id": str(uuid.uuid4()), "name": "One", "frequency": "weekly"}).status == 200
    first = rest.ask("GET", "medications")
    epoch, offset = first.headers["X-Sync-Position"].split(":")
    assert first.body["position"] == {"epoch": epoch, "offset": int(offset)} and int(offset) == 1
    assert [item["frequency"] for item in first.body["items"]] == ["weekly"]
    assert first.body["stacks"] == [] and first.body["settings"]["timezone"] == "UTC"
    assert rest.ask("GET", "medications", **{"If-None-Match": first.headers["ETag"]}).status == 304
    other = Rest(hub, f"{user}-other")
    assert other.ask("GET", "medications").body["items"] == []
    identity = first.body["items"][0]["id"]
    assert other.ask("GET", f"medications/{identity}").status == 404
    assert other.ask("PATCH", f"medications/{identity}", {"name": "Mine"}).status == 409
