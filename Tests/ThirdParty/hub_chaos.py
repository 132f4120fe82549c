"""People in presence channels of several hubs, which die, while their Redis dies, stops and is replaced."""

import contextlib
import json
import random
import threading
import time

from websockets.exceptions import WebSocketException

from plain import Caller, Member
from waiting import eventually


class Person:
    """A client that comes back, to any hub, and keeps what it is told of its channel."""

    def __init__(self, name, channel, hubs, dice, record):
        self.name, self.channel = name, channel
        self._hubs, self._dice, self._record = hubs, dice, record
        #: What it shows: the members' ids; None while it is not in.
        self.view = None
        #: Numbers of the events that came since it was emptied.
        self.heard = []
        self.wants = True
        self._ends = False
        self._member = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ends:
            if not self.wants:
                time.sleep(0.02)
                continue
            with contextlib.suppress(OSError, WebSocketException, AssertionError, TimeoutError, EOFError):
                self._live(self._dice.choice(self._hubs))
            self.view = None
            time.sleep(0.1 + 0.3 * self._dice.random())

    def _live(self, hub):
        with Member(hub, open_timeout=3) as member:
            self._member = member
            member.ask_for(self.channel, self.name)
            seen = 0
            while member.is_open and self.wants and not self._ends:
                frames = list(member.frames)
                for frame in frames[seen:]:
                    self._take(frame)
                    if frame.event == "pusher:subscription_error":
                        return
                seen = len(frames)
                time.sleep(0.01)
            if not self.wants:
                member.end(1000)

    def _take(self, frame):
        if frame.channel != self.channel:
            return
        if frame.event == "pusher_internal:subscription_succeeded":
            self.view = set(frame.data["presence"]["ids"])
            if len(self.view) != frame.data["presence"]["count"] or self.name not in self.view:
                self._record(f"{self.name} was told {frame.raw_data}")
        elif frame.event == "numbered":
            self.heard.append(frame.data)
        elif frame.event == "pusher_internal:member_added":
            who = frame.data["user_id"]
            if self.view is None or who in self.view:
                self._record(f"{self.name} was told twice that {who} came")
            else:
                self.view.add(who)
        elif frame.event == "pusher_internal:member_removed":
            who = frame.data["user_id"]
            if self.view is None or who not in self.view:
                self._record(f"{self.name} was told that {who} went, who was not there")
            else:
                self.view.remove(who)

    @property
    def is_in(self):
        return self.view is not None and self.name in self.view

    def end(self):
        self._ends = True
        self._thread.join(10)


class Crowd:
    """People, half of them in two channels of few, and the others in one of many."""

    def __init__(self, hubs, count, dice):
        self.faults = []
        self.dice = dice
        self.hubs = hubs
        self.people = [
            Person(f"p{number}", f"presence-{number % 2}" if number % 4 < 2 else "presence-all", hubs,
                   random.Random(dice.random()), self.faults.append)
            for number in range(count)]

    @property
    def channels(self):
        return sorted({person.channel for person in self.people})

    def stir(self):
        """Some go, and some come."""
        for person in self.dice.sample(self.people, 3):
            person.wants = not person.wants

    def all(self, want):
        for person in self.people:
            person.wants = want

    def hears(self, timeout):
        """What is published at each hub now reaches everybody who is in, once and in order."""
        for channel in self.channels:
            inside = [one for one in self.people if one.channel == channel and one.wants]
            for one in inside:
                one.heard = []
            sent = []
            for hub in self.hubs:
                for _ in range(3):
                    sent.append(len(sent))
                    self._publish(hub, channel, sent[-1], timeout)
            deadline = time.monotonic() + timeout
            for one in inside:
                while one.heard != sent:
                    assert time.monotonic() < deadline, f"{one.name} heard {one.heard} of {sent} in {channel}"
                    time.sleep(0.01)

    @staticmethod
    def _publish(hub, channel, number, timeout):
        deadline = time.monotonic() + timeout
        with Caller(hub) as caller:
            while (answer := caller.publish([channel], "numbered", data=str(number))).status != 200:
                assert answer.status == 503 and time.monotonic() < deadline, answer
                time.sleep(0.1)

    def settles(self, timeout):
        """Everybody who wants is in, and nobody else; all hubs and all people agree on it."""
        def wrong():
            for channel in self.channels:
                wanted = {one.name for one in self.people if one.channel == channel and one.wants}
                for one in self.people:
                    if one.channel == channel and one.wants and one.view != wanted:
                        return f"{one.name} shows {sorted(one.view or [])} in {channel}, and there are {sorted(wanted)}"
                for number, hub in enumerate(self.hubs):
                    with Caller(hub) as caller:
                        users = caller.get(f"/channels/{channel}/users")
                        facts = caller.get(f"/channels/{channel}", info="user_count,subscription_count")
                    told = {user["id"] for user in users.body.get("users", [])}
                    if told != wanted:
                        return f"hub {number} says {users} of {channel}, and there are {sorted(wanted)}"
                    if (facts.body.get("user_count", 0), facts.body.get("subscription_count", 0)) != (len(wanted),) * 2:
                        return f"hub {number} says {facts} of {channel}, and there are {len(wanted)}"
            return None

        deadline = time.monotonic() + timeout
        while True:
            try:
                problem = wrong()
            except OSError as error:
                problem = str(error)
            if problem is None:
                return
            assert time.monotonic() < deadline, problem
            time.sleep(0.1)

    def print(self):
        """What each shows, for a person who looks for a fault."""
        for one in self.people:
            member = one._member
            print(one.name, one.wants, one.channel, member and member._hub.program.pid, one.view and sorted(one.view))
            if member:
                print(*[frame.text for frame in member.frames if frame.channel == one.channel][-30:], sep="\n")

    def end(self):
        for person in self.people:
            person.end()
