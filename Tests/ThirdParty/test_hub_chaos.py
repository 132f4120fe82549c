"""Presence across hubs is exact again, after whatever has happened to hubs and to their connections."""

import contextlib
import os
import random
import signal
import time

import pytest

from hub_chaos import Crowd
from redis_group import RedisGroup
from redis_server import PROGRAMS
from test_many_hubs import Hub

pytestmark = pytest.mark.skipif("redis" not in PROGRAMS, reason="there is no Redis")

#: How long presence may be wrong once Redis takes writes, and all hubs are there: the lease of a dead hub, its people's
#: grace, and room for a busy machine.
PATIENCE = 40

SEED = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "9"))


def test_presence_is_exact_after_each_blow(record_property):
    record_property("report", f"seed {SEED}, {ROUNDS} blows")
    dice = random.Random(SEED)
    with RedisGroup() as redis, contextlib.ExitStack() as stack:
        hubs = [stack.enter_context(Hub(redis)).ready() for _ in range(3)]
        crowd = Crowd(hubs, 24, dice)
        stack.callback(crowd.end)
        crowd.settles(PATIENCE)

        def kill_a_hub():
            number = dice.randrange(3)
            hubs[number].kill()
            time.sleep(dice.random() * 3)
            hubs[number] = stack.enter_context(Hub(redis))

        def end_a_hub():
            number = dice.randrange(3)
            hubs[number].program.interrupt()
            hubs[number] = stack.enter_context(Hub(redis))

        def freeze_a_hub():
            hub = dice.choice(hubs)
            hub.program.stand_still()
            time.sleep(dice.choice([1, 7]))
            hub.program.process.send_signal(signal.SIGCONT)

        blows = {
            "a hub is killed": kill_a_hub, "a hub ends": end_a_hub, "a hub stands still": freeze_a_hub,
            "the master is emptied": lambda: redis.master()("FLUSHALL"),
            "connections are cut": lambda: redis.master()("CLIENT", "KILL", "TYPE", "normal"),
            "subscriptions are cut": lambda: redis.master()("CLIENT", "KILL", "TYPE", "pubsub"),
            "the master is killed": redis.fails_over,
            "the master does not answer": lambda: redis.master().pause(4_000),
            "the master stands still": lambda: redis.master().freeze(1.5),
        }
        names = list(blows)
        dice.shuffle(names)
        for name in (names * ROUNDS)[:ROUNDS]:
            crowd.stir()
            blows[name]()
            crowd.stir()
            redis.is_well()
            for hub in hubs:
                hub.ready()
            try:
                crowd.settles(PATIENCE)
            except AssertionError as error:
                crowd.print()
                raise AssertionError(f"after {name} (seed {SEED}): {error}") from None
            assert not crowd.faults, (name, SEED, crowd.faults)
