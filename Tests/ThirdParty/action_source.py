"""What people do with their doses: actions of all types, good ones and bad ones, in the shapes that apps send."""

import collections
import datetime
import re

from ledger import FORGED, Action

#: How often each comes, of a hundred.
WEIGHTS = collections.OrderedDict(
    mark_taken=26, mark_missed=7, make_up=10, skip=9, add_note=18, undo=12, bulk=8, criteria=3, invalid=4, trespass=3)

MINUTE = datetime.timedelta(minutes=1)


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Person:
    """A user: the doses, and what the devices have done so far."""

    def __init__(self, user, zone, canary):
        self.user = user
        self.zone = zone
        #: Pusher's server library signs only such ids.
        self.can_be_signed = re.fullmatch(r"[-\w=@,.;]+", user, re.ASCII) is not None
        #: A text that is in this user's product name, notes and reasons, and in nobody else's.
        self.canary = canary
        #: By id of a dose, its instant and the end of its window.
        self.doses = {}
        #: By id, the newest revision that any of the devices has heard of.
        self.revisions = {}
        self.keys = []
        self.phones = []
        #: Somebody else.
        self.stranger = None


class ActionSource:
    """Makes up the actions of one phone."""

    def __init__(self, person, name, dice):
        self.person = person
        self.name = name
        self.dice = dice
        self._count = 0

    def next(self):
        kind, = self.dice.choices(list(WEIGHTS), WEIGHTS.values())
        if kind == "undo" and not self.person.keys:
            kind = "add_note"
        action = getattr(self, kind)()
        if action.client_time is None and self.dice.random() < 0.3:
            action.client_time = self._written(now() - self.dice.randrange(3) * MINUTE)
        if self.dice.random() < 0.2:
            action.tz = self.person.zone
        self.person.keys.append(action.key)
        return action

    # The kinds.

    def mark_taken(self):
        identity = self._dose()
        payload = {"occurrenceId": identity, **self._maybe_note(0.25)}
        start, end = self.person.doses[identity]
        which = self.dice.random()
        if which < 0.45:
            payload["takenAt"] = self._written(min(start + self.dice.randrange(240) * MINUTE, now()))
        elif which < 0.6:
            payload["takenAt"] = self._written(min(end + self.dice.randrange(31, 2000) * MINUTE, now()))
        return self._made("markTaken", payload, identity)

    def mark_missed(self):
        identity = self._dose()
        return self._made("markMissed", {"occurrenceId": identity, **self._maybe_note(0.2)}, identity)

    def make_up(self):
        identity = self._dose()
        payload = {"occurrenceId": identity, **self._maybe_note(0.2)}
        if self.dice.random() < 0.5:
            payload[self.dice.choice(["at", "takenAt"])] = self._written(now() - self.dice.randrange(90) * MINUTE)
        if self.dice.random() < 0.6:
            payload["reason"] = self.text("reason")
        return self._made("makeUp", payload, identity)

    def skip(self):
        identity = self._dose()
        payload = {"occurrenceId": identity, **self._maybe_note(0.2)}
        if self.dice.random() < 0.6:
            payload["reason"] = self.text("reason")
        return self._made("skip", payload, identity)

    def add_note(self):
        identity = self._dose()
        payload = {"occurrenceId": identity, self.dice.choice(["text", "note"]): self.text("note")}
        return self._made("addNote", payload, identity)

    def undo(self):
        keys = self.person.keys
        target = self.dice.choice(keys[-12:] if self.dice.random() < 0.9 else keys)
        return self._made("undo", {"targetKey": target})

    def bulk(self):
        count = self.dice.randrange(2, 7)
        ids = [self._dose() for _ in range(count)]
        payload = {"occurrenceIds": ids}
        if self.dice.random() < 0.3:
            payload["includeFuture"] = self.dice.random() < 0.7
        if self.dice.random() < 0.3:
            payload["takenAt"] = self._written(now() - self.dice.randrange(600) * MINUTE)
        action = self._made("bulkMarkAll", payload)
        if self.dice.random() < 0.4:
            action.base = {identity: {"rev": self._revision(identity)} for identity in ids}
        return action

    def criteria(self):
        criteria = {}
        if self.dice.random() < 0.6:
            start, _ = self.person.doses[self._dose()]
            criteria["date"] = start.date().isoformat()
        if self.dice.random() < 0.2:
            criteria["includeFuture"] = True
        return self._made("bulkMarkAll", {"criteria": criteria})

    def invalid(self):
        """An action that has to be refused each time."""
        identity = self._dose()
        type, payload = self.dice.choice([
            ("markTaken", {"occurrenceId": identity, "takenAt": self._written(now() + 1600 * MINUTE)}),
            ("markTaken", {"occurrenceId": identity, "takenAt": "yesterday"}),
            ("markTaken", {"note": self.text("note")}),
            ("addNote", {"occurrenceId": identity, "text": " \n"}),
            ("addNote", {"occurrenceId": 7, "text": self.text("note")}),
            ("skip", {"occurrenceId": identity, "reason": "x" * 501}),
            ("undo", {"targetKey": f"unknown-{self.name}"}),
            ("resolve", {"of": f"unknown-{self.name}", "choice": "merge"}),
            ("bulkMarkAll", {"occurrenceIds": []}),
            ("bulkMarkAll", {}),
            ("takeTwo", {"occurrenceId": identity}),
        ])
        return self._made(type, payload)

    def trespass(self):
        """An action on another user's doses or actions: the answer is as if they did not exist."""
        stranger = self.person.stranger
        identity = self.dice.choice(list(stranger.doses))
        type, payload = self.dice.choice([
            ("markTaken", {"occurrenceId": identity}),
            ("addNote", {"occurrenceId": identity, "text": self.text("note")}),
            ("bulkMarkAll", {"occurrenceIds": [identity, self._dose()]}),
            ("undo", {"targetKey": self.dice.choice(stranger.keys or ["none"])}),
        ])
        return self._made(type, payload)

    def resolution(self, key, conflict, is_single, round):
        """The answer to a conflict: by dice, and by giving in where it has come back twice."""
        server = conflict.get("server") if conflict else None
        choice = self.dice.choice(["keep_local", "accept_server", "merge"])
        if round >= 2 or is_single and server is None:
            choice = "accept_server"
        payload = {"of": key, "choice": choice}
        if choice == "merge" and is_single and self.dice.random() < 0.5:
            payload["merged"] = self.dice.choice([
                {"note": self.text("note")}, {"status": "taken"}, {"status": "skipped", "reason": self.text("reason")},
                {"status": "scheduled"}, {"status": "made_up", "takenAt": self._written(now()), **self._maybe_note(1)}])
        action = self._made("resolve", payload)
        action.round = round
        if server:
            action.base = {"rev": server["rev"]} if self.dice.random() < 0.6 else {server["id"]: {"rev": server["rev"]}}
        self.person.keys.append(action.key)
        return action

    def forged(self, action):
        """A known key with another payload."""
        fake = Action(action.key, action.type, dict(action.payload), action.base, action.client_time, action.tz)
        fake.n = action.n
        which = self.dice.randrange(4)
        if which == 0:
            fake.base = {"rev": 1_000_003}
        elif which == 1 and action.type in ("markTaken", "markMissed", "makeUp", "skip"):
            fake.payload["note"] = FORGED
        elif which == 2 and action.type != "skip":
            fake.type, fake.payload = "skip", {"occurrenceId": self._dose(), "reason": FORGED}
        else:
            fake.type, fake.payload = "addNote", {"occurrenceId": self._dose(), "text": FORGED}
        return fake

    # Their parts.

    def text(self, kind):
        """A text that nobody else ever writes, which tells whose it is."""
        self._count += 1
        return f"{kind} {self.person.canary} {self.name}.{self._count}"

    def _made(self, type, payload, identity=None):
        self._count += 1
        action = Action(f"{self.name}-{self._count}", type, payload)
        if identity is not None and self.dice.random() < 0.6:
            action.base = {"rev": self._revision(identity)}
        return action

    def _dose(self):
        return self.dice.choice(list(self.person.doses))

    def _revision(self, identity):
        """The revision that this phone takes for the newest; sometimes it is old."""
        return max(0, self.person.revisions.get(identity, 1) - self.dice.choice([0, 0, 0, 1, 3]))

    def _maybe_note(self, share):
        return {"note": self.text("note")} if self.dice.random() < share else {}

    def _written(self, instant):
        """An instant in one of the ways in which clients write it."""
        which = self.dice.randrange(4)
        if which == 0:
            # Not above: a time that is ahead of the server's is not taken as it is.
            return int(instant.timestamp() * 1000)
        if which == 1:
            return instant.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        zone = datetime.timezone(datetime.timedelta(hours=self.dice.randrange(-11, 13), minutes=30 * (which == 3)))
        return instant.astimezone(zone).isoformat(timespec="seconds")
