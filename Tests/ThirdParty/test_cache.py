"""Cache channels: who comes late gets the last event of the backend, once, and is told where there is none."""

import json
import random
import threading

import pytest

from client import Client
from plain import APP, HUBS, Application, Member, PlainHub, facts, members
from waiting import eventually

KINDS = ["cache-", "private-cache-", "presence-cache-", "private-encrypted-cache-"]


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(Application(clientEvents=True), **request.param) as hub:
        yield hub


def name(kind):
    return f"{kind}{random.SystemRandom().randrange(1 << 40):x}"


def joined(member, channel):
    return member.join(channel, "ada" if channel.startswith("presence-") else None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_event_comes_right_after_the_answer(plain, kind):
    channel = name(kind)
    backend = APP.backend(plain)
    for number in range(3):
        # What Pusher's library encrypts, the hub passes and keeps as it is.
        backend.trigger(channel, "state", {"n": number})
    with Member(plain) as member:
        joined(member, channel)
        frame = member.wait_for_event("state", channel)
        member.answered()
        events = [frame.event for frame in member.frames if frame.channel == channel]
        assert events == ["pusher_internal:subscription_succeeded", "state"]
        assert set(json.loads(frame.text)) == {"event", "channel", "data"}
        if "encrypted" in kind:
            assert set(frame.data) == {"nonce", "ciphertext"}
        else:
            assert frame.raw_data == '{"n": 2}'
            cache = facts(plain, channel, "cache")["cache"]
            assert cache["data"] == '{"n": 2}' and 0 < cache["ttl"] <= 1800


@pytest.mark.parametrize("kind", KINDS)
def test_a_miss(plain, kind):
    channel = name(kind)
    with Member(plain) as member:
        joined(member, channel)
        frame = member.wait_for_event("pusher:cache_miss", channel)
        miss = json.loads(frame.text)
        assert (miss["event"], miss["channel"]) == ("pusher:cache_miss", channel)
        assert set(miss) <= {"event", "channel", "data"}
        assert facts(plain, channel, "cache") == {"occupied": True, "cache": None}


@pytest.mark.parametrize("channel", ["cached-news", "private-cached", "presence-cachet", "encrypted-cache-x", "cache"])
def test_prefixes_count_with_their_hyphens(plain, channel):
    """Reverb keeps the last event of `cached-news`."""
    APP.backend(plain).trigger(channel, "state", {})
    with Member(plain) as member:
        joined(member, channel)
        member.answered()
        assert not member.heard("state") and not member.heard("pusher:cache_miss")


def test_client_events_are_not_kept(plain):
    channel = name("private-cache-")
    APP.backend(plain).trigger(channel, "state", {"n": 1})
    with members(plain, 2) as (first, late):
        joined(first, channel)
        first.trigger(channel, "client-state", {"n": 2})
        first.answered()
        joined(late, channel)
        assert late.wait_for_event("state", channel).data == {"n": 1}
        late.answered()
        assert not late.heard("client-state")


def test_a_second_subscribe_gets_it_again(plain):
    channel = name("cache-")
    with Member(plain) as member:
        joined(member, channel)
        APP.backend(plain).trigger(channel, "state", {"n": 1})
        member.eventually_heard("state", channel, 1)
        joined(member, channel)
        member.eventually_heard("state", channel, 2)
        member.answered()
        assert len(member.heard("state", channel)) == 2


def test_it_is_forgotten_in_time():
    with PlainHub(cache_ttl="1s") as hub:
        APP.backend(hub).trigger("cache-short", "state", {})
        eventually(lambda: facts(hub, "cache-short", "cache")["cache"] is None, "it is forgotten")
        with Member(hub) as member:
            joined(member, "cache-short")
            member.wait_for_event("pusher:cache_miss", "cache-short")
            assert not member.heard("state")


def test_newcomers_of_a_busy_channel_miss_nothing_and_get_nothing_twice(plain):
    """The cached event and those that follow have neither gap nor overlap, whenever one comes."""
    channel = name("cache-")
    backend, last = APP.backend(plain), 400
    backend.trigger(channel, "n", {"n": 0})
    publisher = threading.Thread(target=lambda: [backend.trigger(channel, "n", {"n": n}) for n in range(1, last + 1)])
    publisher.start()
    with members(plain, 30) as crowd:
        try:
            for member in crowd:
                joined(member, channel)
        finally:
            publisher.join()
        for member in crowd:
            member.wait_for(lambda frame: frame.event == "n" and frame.data["n"] == last, "the last")
            numbers = [frame.data["n"] for frame in member.heard("n", channel)]
            assert numbers == list(range(numbers[0], last + 1))


def test_pysher_gets_it(plain):
    channel = name("cache-")
    APP.backend(plain).trigger(channel, "state", {"n": 5})
    with Client(plain) as client:
        client.subscribe(channel, "state")
        client.subscribed(channel)
        client.answered()
    with Member(plain) as member:
        joined(member, channel)
        assert member.wait_for_event("state", channel).data == {"n": 5}
