"""The book of a storm: every action that a phone ever made up, what was sent of it, and what it was told."""

import asyncio
import collections

#: Verdicts that a hub stores, and repeats for ever after.
STORED = ("applied", "noop", "partial", "conflict", "rejected")

#: A text that only payloads of forged repeats hold: it must never get anywhere.
FORGED = "forged-payload"


class Action:
    """One entry of a phone's queue."""

    def __init__(self, key, type, payload, base=None, client_time=None, tz=None, round=0):
        self.key = key
        self.type = type
        self.payload = payload
        self.base = base
        self.client_time = client_time
        self.tz = tz
        #: How often its conflict has been answered by another conflict.
        self.round = round
        #: The device's number: given at the first send.
        self.n = None
        #: How it is asked again: `twice`, `http`, `sibling`, `later`, `changed` or not at all.
        self.habit = None

    def envelope(self, device=None, in_order=True):
        """`device` with its number, unless no order is asked for."""
        n = self.n if device and in_order else None
        members = {"v": 1, "key": self.key, "deviceId": device, "n": n, "type": self.type,
                   "payload": self.payload, "base": self.base, "clientTime": self.client_time, "tz": self.tz}
        return {name: value for name, value in members.items() if value is not None}


class Entry:
    """What became of one action."""

    def __init__(self, action, phone):
        self.action = action
        self.phone = phone
        #: The first stored verdict that anybody heard.
        self.verdict = None
        #: Whether the verdict came with all members: requests shaped as the seeds shape them answer with fewer.
        self.is_whole = False
        self.fresh = 0


class Ledger:
    """Counts, and holds each answer against what was said before."""

    def __init__(self):
        self.entries = {}
        self.faults = []
        self.counts = collections.Counter()
        self._waiting = []

    def fault(self, text):
        self.faults.append(text)

    def enter(self, action, phone):
        self.entries[action.key] = Entry(action, phone)
        self.counts["actions"] += 1

    def heard(self, key, answer, is_whole=True):
        """An answer to an honest request; returns whether it is a verdict, and the first one of this action."""
        status = answer.get("status")
        entry = self.entries.get(key)
        if entry is None:
            self.fault(f"an answer to a key that nobody sent: {answer}")
            return False
        if status == "retry":
            self.counts[f"retry {answer.get('code')}"] += 1
            if answer.get("code") not in ("out_of_order", "busy", "unavailable"):
                self.fault(f"a retry without a known code: {answer}")
            return False
        if status not in STORED or answer.get("code") == "key_reused":
            self.fault(f"not an answer to an honest request: {answer}")
            return False
        if answer.get("replayed"):
            self.counts["replayed"] += 1
        else:
            entry.fresh += 1
            if entry.fresh > 1:
                self.fault(f"executed twice: {answer}, and before: {entry.verdict}")
        if entry.verdict is None:
            entry.verdict, entry.is_whole = answer, is_whole
            self.counts[status] += 1
            self._tell()
            return True
        if not alike(entry.verdict, answer):
            self.fault(f"two verdicts of one action: {entry.verdict} and {answer}")
        if is_whole and not entry.is_whole:
            entry.verdict, entry.is_whole = answer, True
        return False

    def heard_of_forgery(self, key, answer):
        """An answer to a repeat with another payload."""
        if answer.get("status") == "retry":
            self.counts[f"retry {answer.get('code')}"] += 1
        elif (answer.get("status"), answer.get("code")) == ("rejected", "key_reused"):
            self.counts["key_reused"] += 1
        else:
            self.fault(f"a forged repeat was answered {answer}; the verdict was {self.entries[key].verdict}")

    # Progress: how many actions have their verdict.

    @property
    def answered(self):
        return sum(self.counts[status] for status in STORED)

    def _tell(self):
        for goal, future in self._waiting:
            if self.answered >= goal and not future.done():
                future.set_result(None)
        self._waiting = [pair for pair in self._waiting if not pair[1].done()]

    async def reached(self, goal):
        """Returns when so many actions have their verdict."""
        if self.answered < goal:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((goal, future))
            await future

    def unanswered(self):
        return [entry for entry in self.entries.values() if entry.verdict is None]


def alike(one, other):
    """Whether two answers say the same, as far as both say it: a repeat differs in `replayed` and `numberUsed` only, and in
    positions where the epochs have been made anew meanwhile. A repeat after that tells where the stream stands when it
    comes: so two repeats of one epoch, of which the first answer was lost, may differ in how far that is."""
    epochs = [[position["epoch"] for position in answer.get("positions", {}).values()] for answer in (one, other)]
    are_repeats = bool(one.get("replayed")) and bool(other.get("replayed"))
    apart = {"replayed", "message", "numberUsed"} | ({"positions"} if epochs[0] != epochs[1] or are_repeats else set())
    return all(one[name] == other[name] for name in one.keys() & other.keys() - apart)
