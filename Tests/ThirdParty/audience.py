"""Thousands of clients in one process, `loadtest crowd`: what they show must be what there is, at each hub."""

import collections
import json
import subprocess
import sys
import threading

from hub import APP_KEY, APP_SECRET, LOADTEST
from plain import Caller
from receiver import Receiver
from waiting import PATIENCE

#: Of a question while it is looked how long it takes until all is exact: a hub that is not well would answer later.
PROMPT = 3


class Audience:
    """The crowd, by its commands. One thread at a time may ask it."""

    def __init__(self, clients, rate, seed):
        self._process = subprocess.Popen(
            [LOADTEST, "crowd", "--clients", str(clients), "--rate", str(rate), "--seed", str(seed), "--app-key", APP_KEY,
             "--app-secret", APP_SECRET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = threading.Lock()
        self._who, self._clients = None, clients

    def __len__(self):
        return self._clients

    @property
    def pid(self):
        return self._process.pid

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()

    def ask(self, *words):
        with self._lock:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"the crowd has ended with {self._process.wait(PATIENCE)}"
        return json.loads(line)

    def comes_to(self, hubs):
        """These take clients and publishes from now on."""
        self.ask("hubs", ",".join(f"127.0.0.1:{hub.port}" for hub in hubs))

    def stir(self, count):
        """So many go or come."""
        self.ask("stir", count)
        self._who = None

    def all(self, want):
        self.ask("all", int(want))
        self._who = None

    def look(self):
        return self.ask("look")

    def who(self):
        """By channel, the ids of those who want to be in."""
        if self._who is None:
            self._who = self.ask("who")
        return self._who

    # What is wrong at this moment: None, or a few words.

    def wrong(self, hubs, dice):
        """By what clients show, and by what hubs say of all channels, and of the members of some."""
        state = self.look()
        if state["wrong"]:
            return f"{state['wrong']} clients are wrong, such as {state['examples'][:3]}"
        who = self.who()
        rooms = [channel for channel in who if channel.startswith("presence-")]
        some = [*dice.sample(rooms, min(4, len(rooms))), max(rooms, key=lambda channel: len(who[channel]))]
        for number, hub in enumerate(hubs):
            try:
                with Caller(hub, timeout=PROMPT) as caller:
                    problem = self._counts(caller) or self.members(caller, some)
            except OSError as error:
                problem = f"no answer: {error!r}"
            if problem:
                return f"hub {number}: {problem}"
        return None

    def _counts(self, caller):
        counts = {channel: len(ids) for channel, ids in self.who().items() if ids}
        for prefix, names in (("presence-", ("user_count", "subscription_count")), ("load-", ("subscription_count",))):
            answer = caller.get("/channels", filter_by_prefix=prefix, info=",".join(names))
            if answer.status != 200:
                return f"{answer}"
            wanted = {channel: {name: count for name in names} for channel, count in counts.items()
                      if channel.startswith(prefix)}
            told = {channel: {name: facts.get(name) for name in names}
                    for channel, facts in answer.body["channels"].items()}
            if told != wanted:
                apart = [channel for channel in told.keys() | wanted.keys() if told.get(channel) != wanted.get(channel)]
                return f"{len(apart)} counts are wrong, such as " + ", ".join(
                    f"{channel} {told.get(channel)} in place of {wanted.get(channel)}" for channel in apart[:3])
        return None

    def members(self, caller, channels):
        for channel in channels:
            answer = caller.get(f"/channels/{channel}/users")
            told = sorted(user["id"] for user in answer.body.get("users", []))
            if answer.status != 200 or told != sorted(self.who()[channel]):
                return f"{channel}: {answer.status}, {told[:40]} in place of {sorted(self.who()[channel])[:40]}"
        return None

    def all_members(self, hubs):
        """The members of all channels, each by one of the hubs."""
        rooms = [channel for channel in self.who() if channel.startswith("presence-")]
        for number, hub in enumerate(hubs):
            with Caller(hub) as caller:
                problem = self.members(caller, rooms[number::len(hubs)])
            if problem:
                return f"hub {number}: {problem}"
        return None


class Account(Receiver):
    """A backend that keeps in mind what webhooks tell: who is in which channel, and which are occupied."""

    def __init__(self, app, host):
        self.occupied, self.members = set(), collections.defaultdict(set)
        self._lock = threading.Lock()
        self.told, self._problems = collections.Counter(), []
        #: The last that was told of each channel, and when the hub and this backend had it, in seconds.
        self._last = collections.defaultdict(lambda: collections.deque(maxlen=6))
        super().__init__(app, answer=self._take, host=host)
        self._server.handle_error = self._failed

    def _failed(self, *_):
        """A hub that is killed cuts its connection; all else is a fault."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            self._problems.append(f"{error!r}")

    def _take(self, hook):
        told = hook.validated(self.app)
        assert told is not None, "a webhook that is not signed"
        with self._lock:
            for event in told["events"]:
                name, channel = event["name"], event["channel"]
                self._last[channel].append(
                    f"{name} {event.get('user_id', '')} {told['time_ms'] / 1000 % 1000:.2f} {hook.at % 1000:.2f}")
                if name in ("channel_occupied", "channel_vacated"):
                    (self.occupied.add if name == "channel_occupied" else self.occupied.discard)(channel)
                else:
                    members = self.members[channel]
                    (members.add if name == "member_added" else members.discard)(event["user_id"])
                self.told[name] += 1
            # Nobody looks at them again.
            self.hooks.clear()
        return 200

    def wrong(self, who):
        """How the account is not that; None where it is."""
        if self._problems:
            return f"webhooks went wrong: {self._problems[:3]}"
        with self._lock:
            occupied = {channel for channel, ids in who.items() if ids}
            if self.occupied != occupied:
                apart = sorted(self.occupied ^ occupied)
                return (f"not occupied {sorted(self.occupied - occupied)[:5]},"
                        f" occupied {sorted(occupied - self.occupied)[:5]}; told of {apart[0]}: {[*self._last[apart[0]]]}")
            for channel, ids in who.items():
                if channel.startswith("presence-") and self.members[channel] != set(ids):
                    return (f"{channel}: has left {sorted(self.members[channel] - set(ids))[:5]},"
                            f" is there {sorted(set(ids) - self.members[channel])[:5]}; told {[*self._last[channel]]}")
        return None
