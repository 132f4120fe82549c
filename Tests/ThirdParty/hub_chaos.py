"""Three hubs, Redis with sentinels, and PostgreSQL, all struck at random under thousands of clients, who end up exact.

    Tests/ThirdParty/hub_chaos --minutes 10 [--clients N] [--seed N]

After each blow, all clients and all hubs must agree on who is where within ten seconds from when Redis takes writes. Where a
hub may be taken for dead, its lease (5 s) and its people's grace (0.5 s) come first. Meanwhile people's devices act, and
their streams are judged as in a storm; a backend publishes; and one keeps an account of what webhooks tell. A line for
each blow goes to standard error, and JSON of all to standard output.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import random
import resource
import sys
import threading
import time

import network as networks
from audience import Account, Audience
from hub_blows import DEADLY, KEEPING, LOSING, ONCE_MORE, SILENT, Blows
from hub_ground import Ground, Streams
from plain import APP, EVERYTHING, Application
from redis_group import USERS, RedisGroup
from storm import Plan, new_seed
from waiting import eventually

#: Seconds in which clients and hubs may be wrong once Redis takes writes.
GOAL = 10
#: What comes before that where a hub may be taken for dead.
LEASE, GRACE = 5, 0.5
#: It is not waited any longer.
LONGEST = 60
#: What blows that come together are in the report.
TWO = "two_at_once"


class Watch:
    """Since when Redis takes writes."""

    def __init__(self, redis):
        self._redis, self.since, self._ends = redis, time.monotonic(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        was = True
        while not self._ends:
            began = time.monotonic()
            if not (now := self._redis.is_writable()):
                self.since = None
            elif not was:
                self.since = began
            was = now
            time.sleep(0.05)

    def end(self):
        self._ends = True
        self._thread.join()


class Chaos:
    """All of it, for some time, or through some blows."""

    def __init__(self, ground, redis, audience, account, network, seed, most, tell):
        self.ground, self.redis, self.audience, self.account = ground, redis, audience, account
        self.network, self.seed, self.tell = network, seed, tell
        self.dice = random.Random(seed)
        #: What is wrong; and blows after which it took longer than it should.
        self.faults, self.late, self._began = [], [], time.monotonic()
        #: By blow: seconds until all was exact, from when it could be, and from the blow.
        self.times = collections.defaultdict(list)
        self._knows, self._refused = True, None
        self._watch, self._most, self._count = Watch(redis), most, 0

    def begin(self):
        for hub in self.ground.hubs:
            hub.ready()
        self.audience.comes_to(self.ground.hubs)
        self.audience.all(True)
        self._becomes_exact("all have come")

    def names(self, kinds):
        """Those of the blows that are possible here, in a random order."""
        names = [name for name in kinds if self.network or name not in SILENT]
        return self.dice.sample(names, len(names))

    def strike_for(self, seconds):
        """A third of the time, nothing is lost that backends are to be told."""
        began = time.monotonic()
        for kinds, end in ((KEEPING, began + seconds / 3), (KEEPING + LOSING, began + seconds)):
            deck = []
            while time.monotonic() < end and not self.faults:
                deck = deck or self.names(kinds)
                name = deck.pop()
                more = [one for one in self.names(kinds) if one in ONCE_MORE]
                # Of three servers and three sentinels, two have to live.
                is_alone = name in ONCE_MORE or name in LOSING or self.dice.random() < 0.6
                self.strike(name if is_alone else f"{name}+{more[0]}")

    def _blow(self, name, failures):
        """What it chooses depends on the seed, its number and itself."""
        dice = random.Random(f"{self.seed}/{self._count}/{name}")
        try:
            getattr(Blows(self.ground, self.redis, self.audience, self.network, dice, self._most), name)()
        except Exception as error:
            failures.append(error)

    def strike(self, name):
        """One blow, or two at once (`one+other`), and the judgement of what is left."""
        self._strikes(name)
        self._stir()
        self._count += 1
        failures = []
        threads = [threading.Thread(target=self._blow, args=(one, failures)) for one in name.split("+")]
        began = time.monotonic()
        before = self.audience.look()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        self._stir()
        over = time.monotonic()
        self._knows = self._knows and all(one in KEEPING for one in name.split("+"))
        took = self._becomes_exact(name, over)
        self.redis.is_well()
        whole = time.monotonic() - over
        again = self._becomes_exact(f"{name}, and Redis is whole")
        self.times[TWO if "+" in name else name].append((took, over - began + took))
        limit = GOAL + (LEASE + GRACE if any(one in DEADLY for one in name.split("+")) else 0)
        if max(took, again) > limit:
            self.late.append(f"{name}: {took:.2f} s, {again:.2f} s")
        taken = self._events_come(name) - over
        state = self.audience.look()
        if self._knows:
            self._expect(lambda: self.account.wrong(self.audience.who()), f"the webhooks' account after {name}")
        self._stir()
        self._becomes_exact(f"{name}, and some have gone and come")
        problem = self.audience.all_members(self.ground.hubs)
        if problem:
            self._fault(f"after {name}: {problem}")
        flickers, returns = (state[kind] - before[kind] for kind in ("flickers", "returns"))
        self.tell(f"{time.monotonic() - began:5.1f} s  {name:60} {over - began:5.1f} s, exact after {took:5.2f} s"
                  f" (+{again:.2f} s), whole {whole:.1f} s, published {taken:.1f} s, {flickers} flickers,"
                  f" {returns} came back")

    def finish(self):
        """All come, all go, all come: what a Redis has lost, backends were not told; what happens from now on, they are."""
        self._strikes("the end")
        for want in (True, False, True):
            self.audience.all(want)
            self._becomes_exact("all come" if want else "all go")
            if not self._knows:
                # What was lost may be that somebody came, or went: the account is right once both were told.
                self._knows = True
                continue
            self._expect(lambda: self.account.wrong(self.audience.who()), "the webhooks' account at the end")
        self._events_come("the end")
        self._watch.end()
        state = self.audience.look()
        for fault, count in state["faults"].items():
            self._fault(f"{count} times, a client was told {fault}: {state['firstFaults']}")
        return state

    # What is expected.

    def _fault(self, text):
        self.faults.append(text)
        self.tell(f"FAULT {text}")

    def _stir(self):
        self.audience.stir(max(3, len(self.audience) // 100))

    def _calm(self, is_calm):
        self.audience.ask("calm", int(is_calm))

    def _expect(self, wrong, what):
        """Nothing is wrong soon; else a fault, with what it is."""
        found = []

        def is_right():
            time.sleep(0.1)
            found[:] = [wrong()]
            return found[0] is None

        try:
            eventually(is_right, what, LONGEST)
        except AssertionError:
            self._fault(f"{what}: {found[0]}")

    def _becomes_exact(self, what, over=None):
        """Waits until all is exact. How long that was from `over` on, and from when Redis takes writes."""
        over = over or time.monotonic()
        before = None
        while True:
            began = time.monotonic()
            problem = self.audience.wrong(self.ground.hubs, self.dice)
            if problem != before and began - over > LEASE:
                # It says why it takes so long.
                self.tell(f"    after {began - over:.2f} s: {problem and problem[:240]}")
            before = problem
            if problem is None:
                return max(0, time.monotonic() - max(over, self._watch.since or began))
            if began - over > LONGEST:
                self._fault(f"not exact {LONGEST} s after {what}: {problem}")
                return began - over
            time.sleep(0.05)

    def _events_come(self, name):
        """What is published reaches all, once it is taken: hubs refuse it while they say what they hold. When it was."""
        began = time.monotonic()
        self._refused = None
        while self._refused is None:
            refused = self.audience.look()["refusedInCalm"]
            self._calm(True)
            self.audience.ask("hear")
            state = eventually(lambda: (found := self.audience.look())["underWay"] == 0 and found, "all are answered",
                               2 * LONGEST)
            if state["refusedInCalm"] == refused:
                self._refused = refused
            elif time.monotonic() - began > LONGEST:
                self._fault(f"publishes are refused {LONGEST} s after {name}: {state['refused']}")
                return time.monotonic()
            else:
                self._calm(False)
                time.sleep(0.2)

        taken = time.monotonic()

        def missing():
            state = self.audience.look()
            return state["examples"] if state["missing"] else None

        self._expect(missing, f"events come after {name}")
        return taken

    def _strikes(self, name):
        """What was published until now had to be taken; from now on it need not."""
        self._calm(False)
        state = self.audience.look()
        if self._refused is not None and state["refusedInCalm"] != self._refused:
            self._fault(f"{state['refusedInCalm'] - self._refused} publishes were refused before {name}: {state['refused']}")
        self._refused = None

    # What is told of it.

    def report(self, state, streams):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "seed": self.seed, "seconds": round(time.monotonic() - self._began), "clients": len(self.audience),
            "namespaces": self.network is not None, "blows": sum(map(len, self.times.values())),
            "exactAfter": {name: {"count": len(times), **spread("", [one for one, _ in times]),
                                  **spread("sinceTheBlow", [one for _, one in times])}
                           for name, times in sorted(self.times.items())},
            "late": self.late, "crowd": {name: state[name] for name in (
                "published", "refused", "deliveries", "returns", "hung", "flickers", "faults", "cpuSeconds")},
            "webhooks": dict(self.account.told), "storms": streams.count,
            "actions": streams.counts.get("actions", 0), "events": streams.counts.get("events", 0),
            "childrenCPUSeconds": round(usage.ru_utime + usage.ru_stime), "faults": self.faults,
        }

    def write_logs(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, hub in enumerate(self.ground.hubs):
            (folder / f"hub-{number}").write_text(hub.program.err.text())
        for server in self.redis.servers + self.redis.sentinels:
            (folder / f"redis-{server.port}").write_text(server.log())


def spread(name, seconds):
    """The median and the most of them, for JSON."""
    return {f"{name}P50" if name else "p50": round(sorted(seconds)[len(seconds) // 2], 2),
            f"{name}Most" if name else "most": round(max(seconds), 2)}


@contextlib.contextmanager
def chaos(clients, rate, plan, seed, most=15, tell=lambda line: None):
    """All programs, and a chaos that has begun; and the people's streams. `most`: seconds that anything is away."""
    dice = random.Random(seed)
    with contextlib.ExitStack() as stack:
        reason = networks.why_not()
        if reason:
            tell(f"no namespaces here, and so no silent ways: {reason}")
        network = None if reason else stack.enter_context(networks.Network(len(USERS) + 1, 3))
        redis = stack.enter_context(RedisGroup(dice, network))
        account = stack.enter_context(Account(APP, network.addresses[0] if network else "127.0.0.1"))
        app = Application(**EVERYTHING, limits={"presenceMembers": 300}, webhooks=[
            {"url": account.url(), "events": ["channel_existence", "presence"]}])
        ground = stack.enter_context(Ground(
            [{"CARILLON_REDIS_URL": redis.url_of(user), "CARILLON_APPS": json.dumps([app.setting()]),
              "CARILLON_WEBHOOKS_ALLOW_PRIVATE": "true", "CARILLON_PRESENCE_LEAVE_GRACE": f"{round(1000 * GRACE)}ms",
              "CARILLON_LIMITS_CONNECTS_PER_SECOND": "100000", "CARILLON_LIMITS_CONNECTIONS_PER_ADDRESS": "100000"}
             for user in USERS], network.places if network else [None] * len(USERS)))
        audience = Audience(clients, rate, seed)
        stack.callback(audience.end)
        one = Chaos(ground, redis, audience, account, network, seed, most, tell)
        one.begin()
        streams = Streams(ground, plan, seed)
        try:
            yield one, streams
        finally:
            streams.end()


def main():
    parser = argparse.ArgumentParser(description="Hubs, Redis and PostgreSQL are struck at random under many clients.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=3_000)
    parser.add_argument("--rate", type=float, default=20, help="publishes a second")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--logs", help="a folder for what hubs and servers of Redis write")
    parser.add_argument("--blows", nargs="*", help="these, one after the other, or two at once (one+other)")
    arguments = parser.parse_args()
    seed = new_seed() if arguments.seed is None else arguments.seed
    began = time.monotonic()

    def tell(line):
        print(f"{time.monotonic() - began:6.1f}  {line}", file=sys.stderr, flush=True)

    tell(f"seed {seed}")
    plan = Plan(users=4, phones=3, actions=40, writers=1, pause=0.3, calm=120)
    with chaos(arguments.clients, arguments.rate, plan, seed, tell=tell) as (one, streams):
        tell("all have come")
        if arguments.blows:
            for name in arguments.blows:
                one.strike(name)
        else:
            one.strike_for(60 * arguments.minutes)
        state = one.finish()
        if arguments.logs:
            one.write_logs(pathlib.Path(arguments.logs))
    one.faults += streams.faults
    report = one.report(state, streams)
    print(json.dumps(report, indent=2))
    sys.exit(bool(report["faults"] or report["late"]))


if __name__ == "__main__":
    main()
