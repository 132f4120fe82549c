"""Presence across hubs is exact again, after whatever has happened to hubs, to Redis and to the way between them."""

import contextlib
import json
import os
import random
import signal
import threading
import time

import pytest

from hub_chaos import Crowd
from plain import APP, EVERYTHING, Application
from receiver import Receiver
from redis_group import USERS, RedisGroup
from redis_server import PROGRAMS
from stage import Stage
from storm import Plan, Storm, new_seed
from test_many_hubs import Hub
from waiting import eventually

pytestmark = pytest.mark.skipif("redis" not in PROGRAMS, reason="there is no Redis")

#: How long presence may be wrong once Redis takes writes, and all hubs are there: the lease of a dead hub, its people's
#: grace, and room for a busy machine.
PATIENCE = 40

SEED = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "11"))


def test_presence_is_exact_after_each_blow(record_property):
    record_property("report", f"seed {SEED}, {ROUNDS} blows")
    dice = random.Random(SEED)
    with RedisGroup(dice) as redis, Receiver(APP) as backend, contextlib.ExitStack() as stack:
        app = Application(**EVERYTHING, webhooks=[
            {"url": backend.url(), "events": ["channel_existence", "presence"]}])

        def hub(user):
            return stack.enter_context(Hub(
                redis, CARILLON_REDIS_URL=redis.url_of(user), CARILLON_APPS=json.dumps([app.setting()]),
                CARILLON_WEBHOOKS_ALLOW_PRIVATE="true"))

        hubs = [hub(user) for user in USERS]
        for one in hubs:
            one.ready()
        crowd = Crowd(hubs, 24, dice)
        stack.callback(crowd.end)
        crowd.settles(PATIENCE)

        def kill_a_hub():
            number = dice.randrange(3)
            hubs[number].kill()
            time.sleep(dice.random() * 3)
            hubs[number] = hub(USERS[number])

        def end_a_hub():
            number = dice.randrange(3)
            hubs[number].program.interrupt()
            hubs[number] = hub(USERS[number])

        def freeze_a_hub():
            one = dice.choice(hubs)
            one.program.stand_still()
            time.sleep(dice.choice([1, 7]))
            one.program.process.send_signal(signal.SIGCONT)

        blows = {
            "a hub is killed": kill_a_hub, "a hub ends": end_a_hub, "a hub stands still": freeze_a_hub,
            "a hub cannot reach Redis": lambda: redis.cuts_off(dice.choice(USERS), dice.choice([1, 9])),
            "the master is emptied": lambda: redis.master()("FLUSHALL"),
            "connections are cut": lambda: redis.master()("CLIENT", "KILL", "TYPE", "normal"),
            "subscriptions are cut": lambda: redis.master()("CLIENT", "KILL", "TYPE", "pubsub"),
            "the master is killed": redis.fails_over, "a sentinel and the master are killed": redis.loses_a_sentinel,
            "the master does not answer": lambda: redis.master().pause(4_000),
            "the master stands still": lambda: redis.master().freeze(1.5),
        }
        # Redis keeps what backends are to be told, whatever becomes of hubs. What it has lost itself, nobody tells them.
        keeps = [name for name in blows if "hub" in name or "cut" in name]
        loses = [name for name in blows if name not in keeps]
        for names in (keeps, loses):
            dice.shuffle(names)
        for number, name in enumerate(((keeps + loses) * ROUNDS)[:ROUNDS]):
            crowd.stir()
            blows[name]()
            crowd.stir()
            redis.is_well()
            for one in hubs:
                one.ready()
            try:
                crowd.settles(PATIENCE)
                crowd.hears(PATIENCE)
            except AssertionError as error:
                crowd.print()
                raise AssertionError(f"after {name} (seed {SEED}): {error}") from None
            assert not crowd.faults, (name, SEED, crowd.faults)
            if number < len(keeps):
                told = {(one.channel, one.name): one.wants for one in crowd.people}
                eventually(lambda: told.items() <= ({key: False for key in told} | account(backend.events())).items(),
                           f"the backend knows who is there after {name} (seed {SEED})")
        # What a Redis has lost, backends were not told. What happens from now on, they are.
        for wants in (True, False):
            crowd.all(wants)
            crowd.settles(PATIENCE)
        eventually(lambda: account(backend.events()) == account_of(crowd, False), "the backend knows that all have left")
        crowd.all(True)
        crowd.settles(PATIENCE)
        eventually(lambda: account(backend.events()) == account_of(crowd, True), "the backend knows that all are there")


def account(events):
    """What a backend takes for true by the webhooks so far: of each channel, and of each member."""
    states = {}
    for event in events:
        states[event["channel"], event.get("user_id")] = event["name"] in ("channel_occupied", "member_added")
    return states


def account_of(crowd, is_there):
    return {(one.channel, who): is_there for one in crowd.people for who in (one.name, None)}


def test_users_streams_are_exact_whatever_becomes_of_redis(record_property):
    """People's devices act, hubs and PostgreSQL are killed, and so is the Redis that the hubs share."""
    dice = random.Random(SEED)
    with RedisGroup(dice) as redis, Stage(hubs=2, settings={"CARILLON_REDIS_URL": redis.url}) as stage:
        blows = [redis.fails_over, lambda: redis.master()("FLUSHALL"), lambda: redis.master().freeze(4)]
        ends, failures, struck = threading.Event(), [], []

        def strike():
            try:
                while not ends.is_set():
                    dice.choice(blows)()
                    redis.is_well()
                    struck.append(1)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=strike, daemon=True)
        thread.start()
        storm = Storm(stage, new_seed(), Plan(users=4, phones=3, actions=20, kills=3, stops=1, terminations=1))
        report = storm.run()
        ends.set()
        thread.join()
        record_property("report", f"seed {SEED}, {len(struck)} blows to Redis\n{report}")
        assert not failures and not storm.ledger.faults, (failures, report)
        assert struck
