"""Churn: thousands of clients join presence and public channels and leave, in every way. Counts are exact at every
quiet point, and the hub's memory is as large at the end as at the beginning."""

import argparse
import collections
import random
import sys
import time

from crowd import Crowd
from plain import APP, EVERYTHING, Application, PlainHub
from waiting import eventually

#: Growth of the hub's resident memory from the first quiet points to the last that is noise of the allocator.
MEMORY_SHARE, MEMORY_BYTES = 0.05, 4 << 20


class Churn:
    """A hub, a crowd, and what they should agree about."""

    def __init__(self, hub, count, seed, app=APP):
        self.hub, self.app, self.seed = hub, app, seed
        self.choices = random.Random(seed)
        self.backend = app.backend(hub)
        # Two people of three are a user of their own; the others are second devices.
        self.crowd = Crowd(hub.port, app, count, max(1, count * 2 // 3))
        # Some fifty in each at a time, far below the hundred members that Pusher allows, and around the hundred from
        # which counts are told more rarely.
        self.rooms = [f"presence-room-{number}" for number in range(max(2, count // 25))]
        self.news = [f"news-{number}" for number in range(max(2, count // 80))]
        self.memory = []
        self.counts = collections.Counter()

    def run(self, seconds, quiet_every):
        """Returns a line of what was done."""
        began = time.monotonic()
        with self.crowd:
            self.crowd.open(self.crowd.people)
            self._settle_in(self.crowd.people)
            self._quiet()
            while time.monotonic() - began < seconds:
                pause = time.monotonic() + quiet_every
                while time.monotonic() < pause:
                    self._batch()
                self._quiet()
            self._everybody_at_once()
            self._quiet()
            for person in self.crowd.people:
                person.drop(reset=self.choices.random() < 0.5)
            eventually(lambda: self._channels() == {}, f"no channel is left, seed {self.seed}")
            self.crowd.open(self.crowd.people)
            self._settle_in(self.crowd.people)
            self._quiet()
        assert not self.crowd.faults, (self.crowd.faults[:10], self.seed)
        self._judge_memory()
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        first, last = self.memory[0] / 1e6, self.memory[-1] / 1e6
        return (f"{len(self.crowd.people)} clients, {time.monotonic() - began:.0f} s, {counts}, "
                f"{self.crowd.events} events; resident MB {first:.1f} at first, {last:.1f} at last, "
                f"{max(self.memory) / 1e6:.1f} at most; seed {self.seed}")

    # What people do.

    def _settle_in(self, people):
        for start in range(0, len(people), 200):
            part = people[start:start + 200]
            for person in part:
                for channel in self._some_channels():
                    person.join(channel)
            self.crowd.answered(part)

    def _some_channels(self):
        return {self.choices.choice(self.rooms), self.choices.choice(self.rooms), self.choices.choice(self.news)}

    def _batch(self):
        """Some of them do something; a round trip of each, and so never more is under way than the hub answers."""
        people = self.choices.sample(self.crowd.people, max(2, len(self.crowd.people) // 40))
        gone = [person for person in people if not person.is_open]
        for person in people:
            if person.is_open:
                self._step(person)
        self.crowd.open(gone)
        for person in gone:
            for channel in self._some_channels():
                person.join(channel)
                self.counts["joins"] += 1
        self.crowd.answered(people)

    def _step(self, person):
        choice = self.choices.random()
        if choice < 0.1:
            person.drop(reset=choice < 0.05)
            self.counts["drops"] += 1
        elif choice < 0.5 and person.inside:
            person.leave(self.choices.choice(sorted(person.inside)))
            self.counts["leaves"] += 1
        elif choice < 0.6 and person.inside:
            # pusher-js: out and in again, in one breath.
            channel = self.choices.choice(sorted(person.inside))
            person.leave(channel)
            person.join(channel)
            self.counts["turns"] += 1
        else:
            person.join(self.choice_for(person))
            self.counts["joins"] += 1

    def choice_for(self, person):
        return self.choices.choice(self.rooms if len(person.inside) % 2 else self.news)

    def _everybody_at_once(self):
        """All connections end in one moment, and half of them come back."""
        for person in self.crowd.people:
            person.drop(reset=True)
        back = self.choices.sample(self.crowd.people, len(self.crowd.people) // 2)
        self.crowd.open(back)
        self._settle_in(back)
        self.counts["mass drops"] += 1

    # What should be so then.

    def _expected(self):
        """Subscriptions of each channel, and users of each presence channel."""
        subscriptions, users = collections.Counter(), collections.defaultdict(set)
        for person in self.crowd.people:
            if person.is_open:
                for channel in person.inside:
                    subscriptions[channel] += 1
                    if channel.startswith("presence-"):
                        users[channel].add(person.user)
        return subscriptions, users

    def _channels(self):
        return {name: facts["subscription_count"] for name, facts in
                self.backend.channels_info(None, ["subscription_count"])["channels"].items()}

    def _quiet(self):
        """Nobody does anything: once what was under way is over, all know the same, and it is right."""
        self.crowd.answered(self.crowd.people)
        subscriptions, users = self._expected()
        where = f"seed {self.seed}"
        self._agree(lambda: self._channels() == subscriptions, f"subscriptions of all channels, {where}")
        counts = {channel: len(them) for channel, them in users.items()}
        self._agree(
            lambda: {name: facts["user_count"] for name, facts in
                     self.backend.channels_info("presence-", ["user_count"])["channels"].items()} == counts,
            f"users of all presence channels, {where}")
        for channel in self.choices.sample(self.rooms, min(5, len(self.rooms))):
            self._agree(lambda: {user["id"] for user in self.backend.users_info(channel)["users"]} == users[channel],
                        f"the users of {channel}, {where}")
        self._agree(lambda: not self._strangers(subscriptions, users), f"what clients were told, {where}",
                    lambda: self._strangers(subscriptions, users)[:5])
        assert not self.crowd.faults, (self.crowd.faults[:10], where)
        self.memory.append(self.hub.resident_bytes())
        self.counts["quiet points"] += 1

    def _strangers(self, subscriptions, users):
        """Clients that were told something that is not true."""
        wrong = []
        for person in self.crowd.people:
            for channel in person.inside:
                told = person.members.get(channel) if channel in users else person.counts.get(channel)
                true = users[channel] if channel in users else subscriptions[channel]
                if told != true or channel not in person.acknowledged:
                    wrong.append((person.number, channel, told, true))
        return wrong

    def _agree(self, condition, what, detail=lambda: ""):
        """The grace of those who left, and the five seconds of large counts, pass meanwhile."""
        try:
            self.crowd.until(condition, what)
        except AssertionError as failure:
            raise AssertionError(f"{failure} {detail()}") from None

    def _judge_memory(self):
        # The first quiet points still fill what the allocator keeps.
        early, late = max(self.memory[:max(2, len(self.memory) // 3)]), self.memory[-1]
        assert late <= early * (1 + MEMORY_SHARE) + MEMORY_BYTES, (self.memory, self.seed)


def churn(count, seconds, quiet_every, seed=None, grace="500ms"):
    """A whole run with a hub of its own; the report."""
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    app = Application(**EVERYTHING)
    with PlainHub(app, presence_leaveGrace=grace, limits_connectsPerSecond=100_000) as hub:
        return Churn(hub, count, seed, app).run(seconds, quiet_every)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--quiet-every", type=float, default=10, help="seconds from one quiet point to the next")
    parser.add_argument("--grace", default="3s", help="as presence.leaveGrace takes it")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    print(churn(options.clients, options.seconds, options.quiet_every, options.seed, options.grace))


if __name__ == "__main__":
    sys.exit(main())
