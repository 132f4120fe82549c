"""Reminders as an app's clients manage them by HTTP, with another device in the stream; and seed 001's own client."""

import contextlib
import datetime
import json
import urllib.error
import urllib.request
import uuid

import pytest

from actions import Answer, act, envelope
from device import Device
from hub import ORIGIN
from names import stream
from waiting import PATIENCE, eventually


class Phone:
    """A REST client of one user. Paths are the routes' own."""

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
            f"http://127.0.0.1:{self.hub.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, answer.headers, answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read() or b"null")

    def list(self):
        return self.ask("GET", f"/users/{self.user}/reminders").body["items"]


@pytest.fixture
def phone(hub, user):
    return Phone(hub, user)


@contextlib.contextmanager
def watching(hub, user):
    """A second device of the user's, in the stream of reminders."""
    with Device(hub, token=hub.token(user)) as device:
        device.subscribe(stream(user, "reminders"))
        device.subscribed(stream(user, "reminders"))
        yield device


def told(device, user, answer):
    """All events of reminders, once the one is there that an answer's position names."""
    position = answer["positions"][stream(user, "reminders")]["offset"]
    device.wait_for(
        lambda frame: isinstance(frame.data, dict) and frame.data.get("_sync", {}).get("o") == position,
        f"event {position}")
    return [(frame.event, frame.data) for frame in device.events(stream(user, "reminders"))]


def test_a_rule_from_its_creation_to_its_deletion(hub, user, phone):
    rule = str(uuid.uuid4())
    with watching(hub, user) as device:
        made = phone.ask("POST", "/reminders", {
            "id": rule, "clientId": "mine", "productId": "zinc", "preset": "LUNCH", "repeat": "daily"})
        assert made.status == 200, made
        assert (made.body["id"], made.body["time"], made.body["rev"], made.body["delivery"]) == (rule, "12:30", 1, "local")
        (name, event), = told(device, user, made.body["_sync"])
        assert name == "reminder.created" and (event["id"], event["clientId"]) == (rule, "mine")
        assert (event["nextOccurrences"], event["upcoming"]) == (made.body["nextOccurrences"], made.body["upcoming"])

        changed = phone.ask("PATCH", f"/reminders/{rule}", {"time": "09:00", "base": {"rev": 1}})
        assert changed.status == 200 and (changed.body["time"], changed.body["rev"]) == ("09:00", 2)
        merged = phone.ask("PATCH", "/reminders/mine", {"label": "Zinc", "base": {"rev": 1}})
        assert merged.status == 200 and (merged.body["time"], merged.body["label"]) == ("09:00", "Zinc")
        stale = phone.ask("PATCH", f"/reminders/{rule}", {"time": "08:30", "rev": 1}, **{"Idempotency-Key": "stale"})
        assert (stale.status, stale.body["code"]) == (409, "field")
        assert stale.body["conflict"]["fields"] == [
            {"name": "time", "base": "12:30", "server": "09:00", "local": "08:30"}]
        assert phone.ask("DELETE", f"/reminders/{rule}", {"base": {"rev": 1}}).status == 409
        kept = act(device, envelope("resolve", {"of": "stale", "choice": "keep_local"}))
        assert kept["status"] == "applied" and kept["result"]["time"] == "08:30"

        shown = phone.ask("GET", f"/reminders/{rule}?n=2&from=2030-01-01T00:00:00Z")
        assert shown.body["nextOccurrences"] == ["2030-01-01T08:30:00+00:00", "2030-01-02T08:30:00+00:00"]
        assert [one["ruleId"] for one in shown.body["upcoming"]] == [rule] * 2 and shown.headers["X-Sync-Position"]
        assert phone.ask("GET", f"/reminders/{rule}?from=soon").status == 422
        assert phone.ask("GET", f"/reminders/{rule}?n=31").status == 400
        assert phone.ask("GET", "/reminders/nothing").status == 404
        assert phone.ask("POST", f"/reminders/{rule}/disable", {}).body["enabled"] is False
        assert phone.ask("GET", f"/reminders/{rule}").body["upcoming"] == []
        assert phone.ask("POST", f"/reminders/{rule}/enable").body["enabled"] is True

        gone = phone.ask("DELETE", f"/reminders/{rule}")
        assert gone.status == 200 and gone.body["id"] == rule
        events = told(device, user, gone.body["_sync"])
        assert [name for name, _ in events] == ["reminder.created"] + ["reminder.updated"] * 5 + ["reminder.deleted"]
        assert phone.ask("PATCH", f"/reminders/{rule}", {"label": "x"}).body["code"] == "gone"
        wrong = phone.ask("POST", "/reminders", {"productId": "zinc", "time": "25:00"})
        assert (wrong.status, wrong.body["path"]) == (422, "time")


def test_an_object_sent_back_whole_is_one_action_by_every_way(hub, user, phone):
    """The answer to the route is lost; what the device then sends by its socket, and in its queue, is a repeat."""
    rule = phone.ask("POST", "/reminders", {"productId": "zinc", "time": "12:00"}).body
    phone.ask("DELETE", f"/reminders/{rule['id']}")
    shown = {name: value for name, value in rule.items() if name != "_sync"}
    for base in ({"base": {"rev": 1}}, {}):
        key = str(uuid.uuid4())
        told = [phone.ask("PATCH", f"/reminders/{rule['id']}", {**shown, **base, "idempotencyKey": key}).body]
        with Device(hub, token=hub.token(user)) as device:
            told.append(act(device, envelope("updateReminder", shown, key, **base)))
        queued = {"op": "update", "id": rule["id"], "payload": shown, "key": key, **base}
        told += phone.ask("POST", "/sync/reminders", {"changes": [queued]}).body["results"]
        assert [answer["code"] for answer in told] == ["gone"] * 3, told
        assert [answer["conflict"] for answer in told[1:]] == [told[0]["conflict"]] * 2


def test_single_occurrences(hub, user, phone):
    rule = phone.ask("POST", "/reminders", {"productId": "zinc", "time": "12:00", "snoozeMinutes": 20}).body
    first, second, third = [one["id"] for one in rule["upcoming"]][:3]
    day = rule["upcoming"][1]["start"][:10]
    with watching(hub, user) as device:
        off = phone.ask("DELETE", f"/reminders/occurrences/{second}")
        assert (off.status, off.body["status"], off.body["date"]) == (200, "cancelled", day)
        (name, event), = told(device, user, off.body["_sync"])
        assert name == "reminder.occurrence_updated" and event["id"] == event["occurrenceId"] == second
        assert second not in [one["id"] for one in phone.list()[0]["upcoming"]]
        assert phone.ask("POST", f"/reminders/occurrences/{second}/enable", {}).body["status"] == "scheduled"
        assert phone.ask("POST", f"/reminders/occurrences/{second}/disable", {}).body["status"] == "cancelled"
        moved = phone.ask("PATCH", f"/reminders/occurrences/{second}", {"enabled": True, "movedTo": f"{day}T13:30"})
        assert (moved.body["status"], moved.body["start"][11:16]) == ("scheduled", "13:30")
        back = phone.ask("PATCH", f"/reminders/{rule['id']}", {"applyTo": "occurrence", "date": day, "time": "12:00"})
        assert back.body["start"][11:16] == "12:00" and back.body["movedTo"] is None
        start = datetime.datetime.fromisoformat(rule["upcoming"][2]["start"])
        until = (start + datetime.timedelta(minutes=30)).isoformat()
        for _ in range(2):
            snoozed = phone.ask("POST", f"/reminders/occurrences/{third}/snooze", {"until": until})
            assert datetime.datetime.fromisoformat(snoozed.body["snoozedUntil"]).timestamp() == start.timestamp() + 1800
            assert snoozed.body["snoozeCount"] == 1
        assert phone.ask("POST", "/reminders/occurrences/none/snooze", {}).status == 422
        assert phone.ask("GET", f"/reminders/{rule['id']}").body["rev"] == 1, "none of this changes the rule"
    preview = phone.ask("POST", "/reminders/preview", {"preset": "BEDTIME", "repeat": "weekdays", "n": 3})
    assert preview.status == 200 and [time[11:16] for time in preview.body["nextOccurrences"]] == ["22:00"] * 3
    assert phone.ask("POST", "/reminders/preview", {"repeat": "daily"}).status == 422
    assert phone.ask("POST", "/reminders/preview", []).status == 400
    assert len(phone.list()) == 1


def test_an_offline_queue(hub, user, phone):
    """Each change once, in order, however often the queue is sent; conflicts beside the results."""
    rule = str(uuid.uuid4())
    assert phone.ask("POST", "/reminders", {"id": rule, "productId": "iron", "time": "08:00"}).status == 200
    assert phone.ask("PATCH", f"/reminders/{rule}", {"time": "09:00"}).status == 200
    queue = {"changes": [
        {"op": "create", "clientId": "tmp-a", "data": {"id": "tmp-a", "productId": "zinc", "time": "07:00"}, "timestamp": 1},
        {"op": "update", "id": "tmp-a", "payload": {"time": "07:30"}, "timestamp": 2},
        {"op": "update", "clientId": "tmp-a", "payload": {"time": "07:45", "rev": 1}, "timestamp": 3},
        {"op": "update", "id": rule, "payload": {"time": "10:00", "rev": 1}, "timestamp": 4, "key": "mine"},
        {"op": "update", "payload": {"id": rule, "label": "Iron"}, "base": {"rev": 1}, "timestamp": 5},
        {"op": "create", "payload": {"productId": "nothing"}, "timestamp": 6}]}
    for change in queue["changes"]:
        change["timestamp"] = round(datetime.datetime.now().timestamp() * 1000) - 60_000 + change["timestamp"]
    first = phone.ask("POST", "/sync/reminders", queue)
    assert first.status == 200
    assert [result["status"] for result in first.body["results"]] == [
        "applied", "applied", "applied", "conflict", "applied", "rejected"]
    (conflict,) = first.body["conflicts"]
    assert (conflict["key"], conflict["code"], conflict["fields"][0]["server"]) == ("mine", "field", "09:00")
    assert {(one["productId"], one["time"], one["label"]) for one in first.body["items"]} == {
        ("zinc", "07:45", None), ("iron", "09:00", "Iron")}
    position = first.body["positions"][stream(user, "reminders")]
    again = phone.ask("POST", "/sync/reminders", queue)
    assert [result.get("replayed") for result in again.body["results"]] == [True] * 6
    assert again.body["positions"][stream(user, "reminders")] == position
    assert [(one["id"], one["rev"]) for one in again.body["items"]] == [
        (one["id"], one["rev"]) for one in first.body["items"]]
    resolved = phone.ask("POST", "/sync/reminders", {"changes": [{"op": "resolve", "payload": {
        "of": "mine", "choice": "merge", "merged": {"time": "09:30"}}}, {"op": "delete", "id": "tmp-a"}]})
    assert [(one["time"], one["label"]) for one in resolved.body["items"]] == [("09:30", "Iron")]
    for wrong in ({}, [], {"changes": 7}):
        assert phone.ask("POST", "/sync/reminders", wrong).status == 400
    mixed = phone.ask("POST", "/sync/reminders", {"changes": [
        {"op": "upsert"}, 7, {"op": "create", "payload": 7}, {"op": "update", "id": rule, "data": {"label": "Fe"}}]})
    assert [result["status"] for result in mixed.body["results"]] == ["rejected"] * 3 + ["applied"]
    assert [result.get("path") for result in mixed.body["results"][:3]] == ["op", None, "payload"]


def test_a_whole_object_for_one_occurrence(hub, user, phone):
    """Its rev is the rule's, and only what the person changed of it is of that day."""
    rule = phone.ask("POST", "/reminders", {"productId": "zinc", "time": "12:00"}).body
    second = rule["upcoming"][1]["id"]
    path = f"/reminders/occurrences/{second}"
    assert [phone.ask("POST", f"{path}/{way}", {}).status for way in ("disable", "enable", "disable")] == [200] * 3
    of_day = {**rule, "applyTo": "occurrence", "occurrenceId": second}
    moved = phone.ask("PATCH", f"/reminders/{rule['id']}", {**of_day, "time": "13:00"})
    assert (moved.status, moved.body["status"], moved.body["movedTo"][11:]) == (200, "cancelled", "13:00")
    queued = phone.ask("POST", "/sync/reminders", {"changes": [{"op": "update", "data": {**of_day, "enabled": False}}]})
    assert queued.body["results"][0]["status"] == "noop" and queued.body["occurrences"][0]["movedTo"][11:] == "13:00"
    back = phone.ask("PATCH", f"/reminders/{rule['id']}", of_day)
    assert (back.status, back.body["status"], back.body["movedTo"]) == (200, "scheduled", None)
    assert phone.ask("POST", "/sync/reminders", {"changes": []}).body["results"] == []


def test_a_page_may_patch_and_delete(hub, phone):
    for method in ("PATCH", "DELETE"):
        answer = phone.ask("OPTIONS", "/reminders/r1", None, **{
            "Origin": ORIGIN, "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,content-type"})
        assert answer.status == 204 and method in answer.headers["Access-Control-Allow-Methods"]
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN


class SeedsClient:
    """Seed 001's `useSaveReminder`, its queue and its Pusher handlers, as they are printed."""

    def __init__(self, phone):
        self.phone, self.items, self.queue = phone, [], []

    def save(self, payload, online=True):
        identity = payload.get("id") or f"tmp-{uuid.uuid4()}"
        optimistic = {**payload, "id": identity}
        found = [index for index, rule in enumerate(self.items) if rule["id"] == identity]
        if found:
            self.items[found[0]] = optimistic
        else:
            self.items.insert(0, optimistic)
        if not online:
            self.queue.append({"op": "update" if payload.get("id") else "create", "data": optimistic})
            return
        self._send(payload)
        self.items = self.phone.list()

    def _send(self, payload):
        if payload.get("id"):
            return self.phone.ask("PATCH", f"/reminders/{payload['id']}", payload)
        return self.phone.ask("POST", "/reminders", payload)

    def replay(self):
        for entry in self.queue:
            if entry["op"] == "create":
                self.phone.ask("POST", "/reminders", entry["data"])
            else:
                self.phone.ask("PATCH", f"/reminders/{entry['data']['id']}", entry["data"])
        self.queue = []
        self.items = self.phone.list()

    def hear(self, name, payload):
        if name == "reminder.created" and not any(rule["id"] == payload["id"] for rule in self.items):
            self.items.insert(0, payload)
        elif name == "reminder.updated":
            self.items = [{**rule, **payload} if rule["id"] == payload["id"] else rule for rule in self.items]
        elif name == "reminder.deleted":
            self.items = [rule for rule in self.items if rule["id"] != payload["id"]]


def test_the_seeds_client_ends_with_the_right_list(hub, user, phone):
    body = {"userId": user, "productId": "zinc", "appliesTo": "item", "preset": "AM_WITH_FOOD", "time": "08:00",
            "timezone": "Europe/Berlin", "repeat": "daily", "delivery": "local", "enabled": True}
    client, other = SeedsClient(phone), SeedsClient(phone)
    with watching(hub, user) as device:
        # Offline, the hook queues the rule, and react-query sends its own request too once the network is back.
        client.save(body, online=False)
        temporary = client.items[0]["id"]
        client.save({**client.items[0], "time": "08:30"}, online=False)
        client._send(body)
        client.replay()
        assert [(rule["clientId"], rule["time"]) for rule in client.items] == [(temporary, "08:30")]
        # Whole objects from the cache are sent back, by two devices, one after the other.
        other.items = phone.list()
        client.save({**client.items[0], "label": "Zinc"})
        other.save({**other.items[0], "snoozeMinutes": 15})
        (rule,) = phone.list()
        assert (rule["label"], rule["snoozeMinutes"], rule["time"]) == ("Zinc", 15, "08:30")
        client.save({**body, "preset": "BEDTIME", "time": "22:00"})
        gone = phone.ask("DELETE", f"/reminders/{temporary}")
        assert gone.status == 200
        listener = SeedsClient(phone)
        for name, payload in told(device, user, gone.body["_sync"]):
            listener.hear(name, payload)
    (left,) = phone.list()
    assert left["time"] == "22:00"
    (heard,) = listener.items
    assert {key: heard[key] for key in ("id", "time", "rev", "label")} == {
        key: left[key] for key in ("id", "time", "rev", "label")}
