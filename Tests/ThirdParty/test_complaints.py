"""What people complain of in Pusher's servers and those like it, each shown absent: presence ghosts in test_presence.py,
webhooks that get lost in test_webhooks.py, terminate that does not in test_user_channels.py, `toOthers` in
test_pusher_api.py, memory that grows in test_churn.py, and the rest here."""

import time

import pytest

from crowd import Crowd
from device import Device
from plain import APP, Application, Caller, Member, PlainHub, subscribers
from waiting import eventually
from wire import within


@pytest.fixture(scope="module")
def plain():
    with PlainHub(presence_leaveGrace="300ms", limits_connectsPerSecond=100_000) as hub:
        yield hub


@pytest.mark.parametrize("channel", [
    "private-stuck", "private-encrypted-stuck", "private-cache-stuck", "presence-stuck", "presence-cache-stuck"])
def test_channels_do_not_stay_stuck_after_a_failure(plain, channel):
    """pusher-js #255, #292, #402, #750: on the same connection a later, right subscribe is taken."""
    user = "ada" if channel.startswith("presence") else None
    with Member(plain) as member, Member(plain) as stranger:
        for wrong in ("", "x", f"{APP.key}:" + "0" * 64, "other-key:" + "0" * 64,
                      APP.backend().authenticate(channel, stranger.socket_id)["auth"]):
            seen = member.count()
            member.subscribe(channel, auth=wrong)
            member.refused(channel, start=seen)
        member.join(channel, user)
        # Nor after pusher-js' unsubscribe of a channel that never was.
        member.unsubscribe(channel)
        seen = member.count()
        member.subscribe(channel, auth="x")
        member.refused(channel, start=seen)
        member.unsubscribe(channel)
        member.join(channel, user)
        APP.backend(plain).trigger(channel, "e", {"n": 1})
        member.wait_for_event("e", channel)


def test_nothing_that_a_client_does_ends_it_for_good(plain):
    """Codes from 4000 to 4099 mean to pusher-js that it shall never come back: 4009 after an auth deadline above all
    (sockudo #130, #177). A deadline closes with 4100, and bad signatures, limits and garbage do not close at all."""
    with PlainHub(Application(authorizationTimeout="1s", clientEvents=True)) as hub:
        with Member(hub) as member:
            assert member.closed() == 4100
        with Member(hub) as member:
            member.join("private-x")
            for turn in range(60):
                member.trigger("private-x", "client-x", {})
                member.subscribe(f"private-{turn}", auth="nonsense")
                member.send("pusher:signin", {"auth": "x", "user_data": "{}"})
                member.send("sync:nonsense", {})
            member.answered()
            assert member.is_open


def test_a_mass_disconnect_stalls_nobody(plain):
    """sockudo #56: half a minute of no new connections. 2,000 members and subscribers end in one moment."""
    with Crowd(plain.port, APP, 2000, 2000) as crowd, Member(plain) as witness:
        witness.join("presence-room-0", "witness")
        crowd.open(crowd.people)
        for start in range(0, 2000, 200):
            part = crowd.people[start:start + 200]
            for person in part:
                person.join(f"presence-room-{person.number % 50}")
                person.join("news")
            crowd.answered(part)
        assert subscribers(plain, "news") == 2000
        for person in crowd.people:
            person.drop(reset=True)
        began = time.monotonic()
        newcomers = crowd.people[:100]
        crowd.open(newcomers)
        for person in newcomers:
            person.join("news")
        crowd.answered(newcomers)
        assert all(person.acknowledged == {"news"} for person in newcomers)
        # loadtest measures how fast; a debug build on a busy machine is far from half a minute.
        assert within(10, began)
        eventually(lambda: subscribers(plain, "news") == 100, "the dead are gone")
        backend = APP.backend(plain)
        eventually(lambda: backend.users_info("presence-room-0")["users"] == [{"id": "witness"}], "so are members")
        assert not crowd.faults


def test_no_4200_before_the_greeting(plain):
    """pusher-js would come back at once and for ever: 377 connects in 1.5 s were seen."""
    for query in ("?protocol=7", "?protocol=99", "?protocol=x", "", "?protocol=5&client=old"):
        with Device(plain, query=query) as device:
            first = eventually(lambda: device.frames[:1], "an answer")[0]
            if first.event != "pusher:connection_established":
                assert first.data["code"] == device.closed() and device.close_code in (4006, 4007)


def test_an_unknown_key_is_told_so(plain):
    with Device(plain, key="nobody") as device:
        assert device.closed() == 4001


def test_payloads_that_are_too_large_are_told_so(plain):
    """laravel-totem #303, pusher-http-python #220, reverb #83, #96: what is the bound, and what to do."""
    with PlainHub(Application(limits={"eventBytes": 20_000})) as hub, Caller(hub) as caller, Member(hub) as member:
        member.join("news")
        assert caller.publish(["news"], data="x" * 20_000).status == 200
        caller.publish(["news"], data="x" * 20_001).refuses(413, "20000")
        frame = member.wait_for_event("e", "news")
        assert frame.raw_data == "x" * 20_000
        member.answered()
        assert len(member.heard("e")) == 1


def test_a_slow_member_of_a_busy_channel_costs_the_others_nothing(plain):
    """A member that does not read is closed, with a code on which it comes back. The others get everything, in
    order."""
    with PlainHub(limits_sendQueueBytes="256KiB") as hub, Member(hub) as member, Caller(hub) as caller:
        member.join("news")
        with Crowd(hub.port, APP, 1, 1) as crowd:
            crowd.open(crowd.people)
            crowd.people[0].join("news")
            crowd.answered(crowd.people)
            for number in range(1500):
                assert caller.publish(["news"], data=f'{{"n":{number},"x":"{"x" * 8000}"}}').status == 200
            frames = member.eventually_heard("e", "news", 1500)
            assert [frame.data["n"] for frame in frames] == list(range(1500))
            eventually(lambda: subscribers(hub, "news") == 1, "the slow one is out")
