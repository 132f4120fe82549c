"""A rolling restart of two hubs behind the proxies of deploy: no event is lost, none comes twice, nobody is refused.

`PROXIES="haproxy nginx caddy"` names the proxies; Caddy's is not in every run of the tests.
"""

import os
import types

import pusher
import pytest

import balancers
from balancers import Balancer
from device import Device
from hub import APP_KEY, APP_SECRET
from rolling import Rolling, TwoHubs
from storm import new_seed
from waiting import PATIENCE, eventually


def needs(name):
    return pytest.param(name, marks=pytest.mark.skipif(
        balancers.found(name) is None, reason=f"needs {name}: deploy/development/packages test"))


@pytest.fixture(scope="module")
def stage():
    with TwoHubs() as running:
        yield running


def paused(stage, pause):
    """The hubs, in lives with such a pause."""
    for hub in stage.hubs:
        hub.use(CARILLON_DRAIN_PAUSE=pause)
        hub.kill()
        hub.start()
    eventually(lambda: stage.is_ready(0) and stage.is_ready(1), "both hubs are ready")


@pytest.mark.parametrize("name", [needs(name) for name in os.environ.get("PROXIES", "haproxy nginx").split()])
def test_a_rolling_restart_loses_nothing(stage, name, folder, record_property):
    paused(stage, balancers.drain_pause(name))
    with Balancer(name, folder, stage.clients, stage.operations) as proxy:
        journey = Rolling(stage, new_seed(), proxy.port)
        report = journey.run()
    record_property("report", report)
    assert not journey.ledger.faults, report + "\n" + proxy.log()
    counts = journey.ledger.counts
    assert counts["events"] > 500 and counts["recovered"] > 20 and counts["actions"] > 50, report


@pytest.mark.parametrize("name", [needs("haproxy"), needs("nginx")])
def test_ordinary_channels_have_one_hub_at_a_time(stage, name, folder):
    """All clients and backends are at the first hub, or all at the second."""
    paused(stage, "0s")
    with Balancer(name, folder, stage.clients, stage.operations, backend="channels") as proxy:
        backend = pusher.Pusher(app_id="1", key=APP_KEY, secret=APP_SECRET, host="127.0.0.1", port=proxy.port,
                                ssl=False, timeout=PATIENCE)

        def lands(where):
            with Device(types.SimpleNamespace(port=proxy.port)) as device:
                device.answered()
                found = stage.has_clients(where)
            # A proxy of several processes may serve the next client before it tells the hub that this one has gone.
            eventually(lambda: not stage.has_clients(0) and not stage.has_clients(1), "the visitor has gone")
            return found

        def hears(where):
            """A client that has just come hears what is published then, at that hub."""
            device = Device(types.SimpleNamespace(port=proxy.port))
            device.subscribe("news")
            device.subscribed("news")
            assert stage.has_clients(where) and not stage.has_clients(1 - where)
            backend.trigger("news", "event", {})
            device.wait_for_event("event", "news")
            return device

        first, second = stage.hubs
        device = hears(0)
        first.end()
        device.closed()
        device = hears(1)
        first.start()
        eventually(lambda: stage.is_ready(0), "the first hub is back")
        if name == "nginx":
            # It leaves clients where they are.
            second.end()
            second.start()
        # haproxy closes them, so that they come back to the first.
        device.closed()
        eventually(lambda: lands(0), "new clients come to the first hub")
        hears(0).close()
