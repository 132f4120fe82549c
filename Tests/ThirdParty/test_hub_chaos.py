"""Hubs, Redis, sentinels, PostgreSQL and the ways between them are struck under clients who end up exact; in small.

`make hub-chaos` strikes for longer, under thousands. CHAOS_SEED repeats a run; CHAOS_ROUNDS says how many blows it has.
"""

import json
import os

import pytest

import network
from hub_blows import KEEPING, LOSING
from hub_chaos import chaos
from redis_server import PROGRAMS
from storm import Plan, new_seed

pytestmark = pytest.mark.skipif("redis" not in PROGRAMS, reason="there is no Redis")

SEED = int(os.environ.get("CHAOS_SEED") or new_seed())
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "8"))

#: What no run goes without: a way that swallows all, a hub that others take for dead; and sentinels that are cut off.
ALWAYS = ("a_hub_has_no_way_to_redis", "a_hub_is_killed")
CUT_OFF = ("the_master_is_killed_and_hubs_cannot_ask", "sentinels_lose_the_master")


def test_all_is_exact_after_each_blow(record_property):
    lines = [f"seed {SEED}"]
    plan = Plan(users=3, phones=2, actions=20, writers=1, pause=0.3, calm=60)
    with chaos(300, 20, plan, SEED, most=8, tell=lines.append) as (one, streams):
        keeping = [*ALWAYS, *(name for name in one.names(KEEPING) if name not in ALWAYS)][:ROUNDS // 2]
        losing = [*one.dice.sample([name for name in one.names(LOSING) if name in CUT_OFF], 1 if one.network else 0),
                  *(name for name in one.names(LOSING) if name not in CUT_OFF)]
        # While nothing is lost of what backends are to be told, the account is right after each.
        for name in [*keeping, *(losing * ROUNDS)[:ROUNDS - len(keeping) - 1], "a_hub_stands_still+the_master_is_killed"]:
            one.strike(name)
        state = one.finish()
    record_property("report", "\n".join(lines) + "\n" + json.dumps(one.report(state, streams)))
    assert not one.faults + streams.faults, "\n".join(lines + streams.faults)
    assert streams.count and state["deliveries"] and len(lines) > ROUNDS


@pytest.mark.skipif(network.why_not() is not None, reason="there are no namespaces")
def test_a_way_swallows_what_is_sent():
    """What the blows above rely on: a connection is neither taken nor refused."""
    with network.Network(2, 1) as places:
        one, two = places.places
        assert one.reaches(places.addresses[0]) and two.reaches(places.addresses[0])
        one.is_deaf_to(places.addresses)
        assert not one.reaches(places.addresses[0]) and two.reaches(places.addresses[0])
        one.hears_all()
        assert one.reaches(places.addresses[0])
