"""A device with reminders that is mostly without a network: its cache, its queue, and the conflicts that it shows."""

import itertools
import urllib.parse
import uuid

from actions import Caller, act
from device import Device
from names import stream
from seed_reminders import RemindersApi
from waiting import PATIENCE

#: What a person changes of a rule.
FIELDS = ("productId", "appliesTo", "label", "time", "timezone", "tzMode", "repeat", "repeatOn", "snoozeMinutes", "delivery",
          "enabled")


def fields(rule):
    """What all sides must agree on: neither times that pass nor the event's own place."""
    return {name: rule.get(name) for name in ("id", "clientId", "rev", *FIELDS)}


def occurrence(data, rules):
    """What all sides must agree on of a day that differs from its rule; `start` as a device works it out."""
    told = {name: data.get(name) for name in (
        "occurrenceId", "ruleId", "date", "status", "movedTo", "snoozedUntil", "snoozeCount", "rev")}
    return {**told, "start": data["movedTo"] or f"{data['date']}T{rules[data['ruleId']]['time']}"}


#: The `op` of a queued change, by the type of its action.
OPS = {"createReminder": "create", "updateReminder": "update", "deleteReminder": "delete", "snoozeReminder": "snooze",
       "setReminderOccurrence": "occurrence", "resolve": "resolve"}


class ReminderPhone:
    """Acts at once on what it shows, and tells the server when it can."""

    def __init__(self, hub, user, name, dice):
        self.hub = hub
        self.user = user
        self.name = name
        self.dice = dice
        self.channel = stream(user, "reminders")
        self.rules = {}
        self.occurrences = {}
        self.position = None
        self.queue = []
        self.dialogs = []
        #: Keys of all conflicts that it ever showed.
        self.shown = []
        #: Keys of its actions, by what became of them.
        self.outcomes = {}
        self.device = None
        self._read = 0

    # The network.

    def connect(self):
        """Comes back with its position, or fetches all anew."""
        self.device = Device(self.hub, token=self.hub.token(self.user))
        self._read = 0
        self.device.subscribe(self.channel)
        now = self.device.subscribed(self.channel).data["sync"]
        if self.position is None or self.dice.random() < 0.2:
            self.fetch()
        else:
            self.device.send("sync:resume", {"v": 1, "channels": {self.channel: self.position}})
            resumed = self.device.wait_for_event("sync:resumed")
            told = resumed.data["channels"][self.channel]
            assert told["recovered"], told
            # What came between the acknowledgement and this answer comes once more behind it, in its place.
            self._read = next(n for n, frame in enumerate(list(self.device.frames)) if frame is resumed) + 1
        self.hear(now["offset"])

    def disconnect(self):
        if self.device is not None:
            self.device.close()
            self.device = None

    def fetch(self):
        """The list as the server has it; events that it knows already are passed over."""
        body = Caller(self.hub, self.user).get(f"/users/{urllib.parse.quote(self.user)}/reminders").body
        self.rules = {rule["id"]: rule for rule in body["items"]}
        self.occurrences = {one["occurrenceId"]: one for one in body["occurrences"]}
        self.position = body["position"]

    def hear(self, offset):
        """Waits for the event of a number, and applies it and those before it."""
        if offset > self.position["offset"]:
            self.device.wait_for(
                lambda frame: frame.channel == self.channel and frame.event.startswith("reminder.")
                and frame.data["_sync"]["o"] >= offset, f"event {offset} of {self.name}", start=self._read)
        frames = list(self.device.frames)
        for frame in frames[self._read:]:
            if frame.channel == self.channel and frame.event.startswith("reminder."):
                self._apply(frame)
        self._read = len(frames)
        assert self.position["offset"] >= offset, (self.position, offset)

    def _apply(self, frame):
        offset = frame.data["_sync"]["o"]
        if offset <= self.position["offset"]:
            return
        assert offset == self.position["offset"] + 1, f"{self.name} at {self.position} hears {frame}"
        self.position = {**self.position, "offset": offset}
        data = {name: value for name, value in frame.data.items() if name != "_sync"}
        if frame.event in ("reminder.created", "reminder.updated"):
            self.rules[data["id"]] = data
        elif frame.event == "reminder.deleted":
            self.rules.pop(data["id"], None)
            self.occurrences = {key: one for key, one in self.occurrences.items() if one["ruleId"] != data["id"]}
        elif data.get("removed"):
            self.occurrences.pop(data["occurrenceId"], None)
        else:
            self.occurrences[data["occurrenceId"]] = data

    # The person.

    def do(self, kind, payload, rev=None):
        more = {} if rev is None else {"base": {"rev": rev}}
        self.queue.append({
            "v": 1, "key": str(uuid.uuid4()), "deviceId": self.name, "type": kind, "payload": payload, **more})

    def edit(self):
        """One thing that a person does on this device's screen."""
        dice = self.dice
        deleted = {one["payload"]["id"] for one in self.queue if one["type"] == "deleteReminder"}
        known = [rule for rule in self.rules.values() if rule["id"] not in deleted]
        own = [one["payload"] for one in self.queue
               if one["type"] == "createReminder" and one["payload"]["id"] not in deleted]
        if not known and not own or len(known) < 3 and dice.random() < 0.3:
            identity = str(uuid.uuid4()) if dice.random() < 0.7 else f"tmp-{uuid.uuid4()}"
            self.do("createReminder", {
                "id": identity, "productId": f"product-{uuid.uuid4()}", "time": "08:00", "timezone": "Europe/Berlin",
                "repeat": "daily", "enabled": True})
            return
        rule = dice.choice(known + own)
        rev = rule.get("rev", None if rule["id"].startswith("tmp-") else 1)
        choice = dice.random()
        if choice < 0.08:
            self.do("deleteReminder", {"id": rule["id"]}, rev)
        elif choice < 0.2 and rule.get("upcoming"):
            one = rule["upcoming"][dice.choice([0, 0, 1])]
            first = one["id"]
            seen = self.occurrences.get(first, {}).get("rev", 0) if dice.random() < 0.4 else None
            if dice.random() < 0.3:
                self.do("snoozeReminder", {"occurrenceId": first, "minutes": dice.choice([5, 30])})
            elif dice.random() < 0.5:
                moved = dice.choice([None, f"{one['start'][:10]}T20:00", f"{one['start'][:10]}T21:30"])
                self.do("setReminderOccurrence", {"occurrenceId": first, "movedTo": moved}, seen)
            else:
                self.do("setReminderOccurrence", {"occurrenceId": first, "enabled": dice.random() < 0.5}, seen)
        else:
            changed = {}
            for _ in range(dice.choice([1, 1, 2])):
                changed.update(dice.choice([
                    {"time": dice.choice(["08:00", "08:10", "08:20", "08:30"])}, {"label": dice.choice(["a", "b", None])},
                    {"enabled": dice.random() < 0.5}, {"snoozeMinutes": dice.choice([5, 10, 15])},
                    {"repeat": "custom", "repeatOn": dice.choice([[1], [2, 4]])}, {"repeat": "daily"}]))
            if dice.random() < 0.2 and "rev" in rule:
                # The whole object that the device shows, with all that the hub has put into it.
                changed = {**rule, **changed}
            self.do("updateReminder", {**changed, "id": rule["id"]}, None if dice.random() < 0.1 else rev)

    def decide(self):
        """The person looks at the conflicts, the newest first."""
        while self.dialogs:
            key, conflict, round_ = self.dialogs.pop()
            choice = "accept_server" if round_ > 3 else self.dice.choice(["keep_local", "accept_server", "merge"])
            payload = {"of": key, "choice": choice}
            if choice == "merge" and conflict["fields"] and self.dice.random() < 0.5:
                field = self.dice.choice(conflict["fields"])
                payload["merged"] = {field["name"]: self.dice.choice([field["server"], field["local"]])}
            self.do("resolve", payload)
            self.queue[-1]["round"] = round_ + 1

    def tell(self):
        """Sends its queue in order, by one door or another. An answer may be lost: then the same action is sent again
        when the device is back, perhaps by another door."""
        while self.queue:
            told = self.dice.choice([self._by_socket, self._by_path, self._by_queue])()
            if self.dice.random() < 0.08:
                return
            for answer in told:
                first = self.queue.pop(0)
                assert first["key"] == answer["key"] and first["key"] not in self.outcomes, (first, answer)
                self.outcomes[first["key"]] = answer["status"]
                if answer["status"] == "conflict":
                    self.shown.append(first["key"])
                    self.dialogs.append((first["key"], answer["conflict"], first.get("round", 0)))

    def _by_socket(self):
        return [act(self.device, {name: value for name, value in self.queue[0].items() if name != "round"})]

    def _by_queue(self):
        """Some of the queue at once, in the words of `POST /sync/reminders`."""
        changes = [
            {**{name: one[name] for name in ("key", "deviceId", "payload", "base") if name in one}, "op": OPS[one["type"]]}
            for one in self.queue[:self.dice.choice([1, 2, 5])]]
        answer = self._ask("POST", "/sync/reminders", {"changes": changes})
        assert answer.status == 200, answer
        return list(itertools.takewhile(lambda result: result["status"] != "retry", answer.body["results"]))

    def _by_path(self):
        """By the route of its own, if it has one."""
        first = self.queue[0]
        payload = first["payload"]
        kind = first["type"]
        if kind == "createReminder":
            method, path = "POST", "/reminders"
        elif kind == "snoozeReminder":
            method, path = "POST", f"/reminders/occurrences/{payload['occurrenceId']}/snooze"
        elif kind == "setReminderOccurrence":
            method, path = "PATCH", f"/reminders/occurrences/{payload['occurrenceId']}"
        elif kind in ("updateReminder", "deleteReminder"):
            method, path = "PATCH" if kind == "updateReminder" else "DELETE", f"/reminders/{payload['id']}"
        else:
            return self._by_queue()
        beside = {"base": first["base"]} if "base" in first else {}
        answer = self._ask(method, path, {**payload, **beside, "deviceId": self.name, "idempotencyKey": first["key"]})
        assert answer.status in (200, 409, 422), answer
        told = {409: "conflict", 422: "rejected"}.get(answer.status)
        status = told or answer.body["_sync"]["status"]
        return [{**answer.body, "key": first["key"], "status": status}]

    def _ask(self, method, path, body):
        """An answer that is no retry."""
        api = RemindersApi(self.hub, self.user)
        return api.answer(method, path, body)

    def visit(self):
        """A while with a network: hears, tells, decides and tells again, and may be gone before it has heard the end."""
        self.connect()
        try:
            self.tell()
            self.decide()
            self.tell()
            if self.dice.random() < 0.7:
                self.listen()
        finally:
            self.disconnect()

    def listen(self):
        """Hears all that there is by now, as the table says."""
        (top,), = self.hub.query(
            "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'reminders'", [self.user])
        self.hear(top)
