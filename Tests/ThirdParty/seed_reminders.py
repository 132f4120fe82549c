"""The reminders' client of seed 001, transcribed: its cache, its queue, its handlers, and what it sends."""

import copy
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid

from actions import Answer
from device import Device
from names import stream
from waiting import PATIENCE, eventually


class Refused(Exception):
    """What axios raises of a status that is no success."""

    def __init__(self, answer):
        super().__init__(str(answer))
        self.answer = answer


class RemindersApi:
    """`src/api/remindersApi.ts`, and the route for what was queued."""

    def __init__(self, hub, user):
        self.hub = hub
        self.user = user
        self.token = hub.token(user)

    def fetch_reminders(self):
        return self.ask("GET", f"/users/{urllib.parse.quote(self.user, safe='')}/reminders")

    def create_reminder(self, payload):
        return self.ask("POST", "/reminders", payload)

    def update_reminder(self, identity, payload):
        return self.ask("PATCH", f"/reminders/{identity}", payload)

    def delete_reminder(self, identity):
        return self.ask("DELETE", f"/reminders/{identity}")

    def sync(self, changes):
        return self.ask("POST", "/sync/reminders", {"changes": changes})

    def ask(self, method, path, body=None):
        """`r.data`, or what axios raises; again while the hub says `retry`."""
        answer = self.answer(method, path, body)
        if answer.status >= 300:
            raise Refused(answer)
        return answer.body

    def answer(self, method, path, body=None):
        return eventually(
            lambda: next((answer for answer in [self._once(method, path, body)]
                          if answer.status not in (429, 503)), None), f"{method} {path}")

    def _once(self, method, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.hub.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, answer.headers, answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read() or b"null")


class SeedClient:
    """An app on one device. Without a network, react-query pauses its mutations, and the app queues them as well."""

    def __init__(self, hub, user, is_dated=True):
        self.api = RemindersApi(hub, user)
        #: The seed's prose dates what is queued; its code does not.
        self.is_dated = is_dated
        self.channel = stream(user, "reminders")
        self.cache = {"items": []}
        self.paused = []
        self.offline_queue = []
        self.device = None
        self._before = self._read = 0
        self._milliseconds = 1_763_000_000_000

    @property
    def is_online(self):
        return self.device is not None

    # `src/services/pusher.ts`.

    def connect(self):
        self.device = Device(self.api.hub, token=self.api.token)
        self.device.subscribe(self.channel)
        #: Events up to here came before this connection.
        self._before = self.device.subscribed(self.channel).data["sync"]["offset"]
        self._read = 0

    def disconnect(self):
        self.device.close()
        self.device = None

    def heard(self, offset):
        """Waits for the event of a number, and handles it and those before it, as they came."""
        if offset > self._before:
            self.device.wait_for(
                lambda frame: frame.channel == self.channel and isinstance(frame.data, dict)
                and frame.data.get("_sync", {}).get("o", 0) >= offset, f"event {offset}")
        frames = list(self.device.frames)
        for frame in frames[self._read:]:
            if frame.channel == self.channel and frame.event.startswith("reminder."):
                self.handle(frame.event, frame.data)
        self._read = len(frames)

    def handle(self, event, payload):
        items = self.cache["items"]
        if event == "reminder.created":
            if not any(rule["id"] == payload["id"] for rule in items):
                self.cache = {**self.cache, "items": [payload, *items]}
        elif event == "reminder.updated":
            self.cache = {**self.cache, "items": [
                {**rule, **payload} if rule["id"] == payload["id"] else rule for rule in items]}
        elif event == "reminder.deleted":
            self.cache = {**self.cache, "items": [rule for rule in items if rule["id"] != payload["id"]]}

    # `src/hooks/useSaveReminder.ts`.

    def save(self, payload):
        previous = self.cache
        client_id = payload.get("id") or f"tmp-{uuid.uuid4()}"
        optimistic = {**payload, "id": payload.get("id") or client_id}
        items = list(self.cache["items"])
        index = next((index for index, rule in enumerate(items) if rule["id"] == optimistic["id"]), None)
        if index is None:
            items.insert(0, optimistic)
        else:
            items[index] = optimistic
        self.cache = {**self.cache, "items": items}
        operation = "update" if payload.get("id") else "create"
        mutation = self._mutation(operation, payload, previous)
        if not self.is_online:
            self._enqueue(operation, optimistic, client_id)
        return self._mutate(mutation), optimistic["id"]

    def delete(self, identity):
        previous = self.cache
        self.cache = {**self.cache, "items": [rule for rule in self.cache["items"] if rule["id"] != identity]}
        if not self.is_online:
            self._enqueue("delete", {"id": identity}, identity)
        return self._mutate(self._mutation("delete", {"id": identity}, previous))

    def _enqueue(self, operation, data, client_id):
        self._milliseconds += 1
        dated = {"clientId": client_id, "timestamp": self._milliseconds} if self.is_dated else {}
        self.offline_queue.append({"op": operation, "data": copy.deepcopy(data), **dated})

    def _mutation(self, operation, payload, previous):
        sent = copy.deepcopy(payload)

        def run():
            try:
                if operation == "create":
                    return self.api.create_reminder(sent)
                if operation == "update":
                    return self.api.update_reminder(sent["id"], sent)
                return self.api.delete_reminder(sent["id"])
            except Refused as error:
                self.cache = previous
                return error.answer
            finally:
                self.invalidate()

        return run

    def _mutate(self, mutation):
        if self.is_online:
            return mutation()
        self.paused.append(mutation)
        return None

    # The way back.

    def invalidate(self):
        """The query is fetched anew."""
        fetched = self.api.fetch_reminders()
        self.cache = fetched
        self.heard(fetched["position"]["offset"])

    def reconnect(self, mutations_first=True):
        """react-query resumes what it had paused, and the app posts its queue; answers of both are kept."""
        self.connect()
        told = {}
        if mutations_first:
            told["mutations"] = [mutation() for mutation in self.paused]
        told["sync"] = self.api.sync(self.offline_queue) if self.offline_queue else None
        if not mutations_first:
            told["mutations"] = [mutation() for mutation in self.paused]
        self.paused, self.offline_queue = [], []
        self.invalidate()
        return told

    def shown(self):
        """What the screen lists."""
        return sorted((rule.get("label"), rule["time"], rule["enabled"]) for rule in self.cache["items"])
