"""Client events: from member to member of private and presence channels, and never back to who sent them."""

import json
import random

import pytest

from client import Client
from hub import APP_SECRET
from plain import EVERYTHING, HUBS, Application, Member, PlainHub, members
from waiting import eventually

SILENT = Application("2", "key-2", "secret-2", **{**EVERYTHING, "clientEvents": False})


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(Application(**EVERYTHING), SILENT, **request.param) as hub:
        yield hub


def name(kind):
    return f"{kind}talk-{random.SystemRandom().randrange(1 << 40):x}"


@pytest.mark.parametrize("kind", ["private-", "presence-", "private-cache-", "presence-cache-"])
def test_all_others_get_it_once_and_the_sender_does_not(plain, kind):
    channel = name(kind)
    with members(plain, 6) as crowd:
        for number, member in enumerate(crowd):
            member.join(channel, f"user-{number}" if kind.startswith("presence") else None)
        crowd[0].trigger(channel, "client-typing", {"on": True, "text": "ä\n\"q\""})
        for member in crowd[1:]:
            frame = member.wait_for_event("client-typing", channel)
            expected = {"event": "client-typing", "channel": channel, "data": frame.raw_data}
            if kind.startswith("presence"):
                expected["user_id"] = "user-0"
            assert json.loads(frame.text) == expected
            assert isinstance(frame.raw_data, str) and frame.data == {"on": True, "text": "ä\n\"q\""}
        for member in crowd:
            member.caught_up(channel)
            assert len(member.heard("client-typing")) == (0 if member is crowd[0] else 1)


@pytest.mark.parametrize("text", ["plain words", "{\"a\": 1.50}", "", "\u2028 \U0001f48a \\"])
def test_a_text_is_passed_as_it_is(plain, text):
    channel = name("private-")
    with members(plain, 2) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        sender.trigger(channel, "client-e", text)
        assert json.loads(receiver.wait_for(lambda frame: "client-e" in frame.text, "it").text)["data"] == text


def test_order_is_one_for_all(plain):
    """All receivers hear the others' events in one order, with any sender."""
    channel = name("presence-")
    app = Application("1", **{**EVERYTHING, "limits": {"clientEventsPerSecond": 10_000}})
    with PlainHub(app) as hub, members(hub, 5) as crowd:
        for number, member in enumerate(crowd):
            member.join(channel, f"user-{number}")
        for number in range(200):
            for member in crowd[:3]:
                member.trigger(channel, "client-n", {"by": crowd.index(member), "n": number})
        orders = []
        for member in crowd[3:]:
            frames = member.eventually_heard("client-n", channel, 600)
            orders.append([(frame.data["by"], frame.data["n"]) for frame in frames])
            assert len(frames) == 600
        assert orders[0] == orders[1]
        for index, member in enumerate(crowd[:3]):
            frames = member.eventually_heard("client-n", channel, 400)
            own = [(frame.data["by"], frame.data["n"]) for frame in frames]
            assert own == [each for each in orders[0] if each[0] != index]


@pytest.mark.parametrize("kind", ["", "cache-", "private-encrypted-", "private-encrypted-cache-"])
def test_not_on_channels_of_other_kinds(plain, kind):
    channel = name(kind)
    with members(plain, 2) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        seen = sender.count()
        sender.trigger(channel, "client-e", {})
        assert sender.complaint(start=seen).data["message"]
        sender.answered()
        receiver.caught_up(channel)
        assert not receiver.heard("client-e") and sender.is_open


def test_not_where_it_is_switched_off(plain):
    channel = name("private-")
    with members(plain, 2, app=SILENT) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        seen = sender.count()
        sender.trigger(channel, "client-e", {})
        sender.complaint(start=seen)
        receiver.caught_up(channel)
        assert not receiver.heard("client-e")


def test_not_from_outside(plain):
    channel = name("private-")
    with members(plain, 2) as (stranger, receiver):
        receiver.join(channel)
        for prepare in (lambda: None, lambda: (stranger.join(channel), stranger.unsubscribe(channel))):
            prepare()
            seen = stranger.count()
            stranger.trigger(channel, "client-e", {})
            stranger.complaint(start=seen)
        receiver.caught_up(channel)
        assert not receiver.heard("client-e")


@pytest.mark.parametrize("event", ["shout", "pusher:shout", "client", "Client-e", "pusher_internal:member_added"])
def test_only_names_that_begin_with_client(plain, event):
    """pusher-js's `send_event` lets any name pass, and so the hub has to look."""
    channel = name("private-")
    with members(plain, 2) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        seen = sender.count()
        sender.trigger(channel, event, {})
        sender.complaint(start=seen)
        receiver.caught_up(channel)
        assert not receiver.heard(event) and sender.is_open


def test_too_many_are_refused_and_the_connection_stays(plain):
    channel = name("private-")
    with members(plain, 2) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        for number in range(60):
            sender.trigger(channel, "client-e", {"n": number})
        sender.answered()
        refused = [frame for frame in sender.heard("pusher:error") if frame.data["code"] == 4301]
        receiver.caught_up(channel)
        passed = [frame.data["n"] for frame in receiver.heard("client-e", channel)]
        # Ten a second; on a slow machine the sixty took longer than one.
        assert len(passed) >= 10 and passed == sorted(passed) and passed[:10] == list(range(10))
        assert refused and len(refused) + len(passed) == 60 and sender.is_open


def test_data_at_the_bound_and_one_past_it(plain):
    channel = name("private-")
    with members(plain, 2) as (sender, receiver):
        sender.join(channel)
        receiver.join(channel)
        sender.trigger(channel, "client-large", "x" * 10_240)
        frame = receiver.wait_for(lambda frame: "client-large" in frame.text[:40], "the largest")
        assert frame.raw_data == "x" * 10_240
        seen = sender.count()
        sender.trigger(channel, "client-large", "x" * 10_241)
        sender.complaint(start=seen)
        receiver.caught_up(channel)
        assert len(receiver.heard("client-large")) == 1


def test_pysher_triggers(plain):
    channel = name("private-")
    with Client(plain, secret=APP_SECRET) as client, Member(plain) as member:
        member.join(channel)
        ours = client.subscribe(channel, "client-back")
        client.subscribed(channel)
        ours.trigger("client-hello", {"from": "pysher"})
        assert member.wait_for_event("client-hello", channel).data == {"from": "pysher"}
        member.trigger(channel, "client-back", {"from": "member"})
        eventually(lambda: client.events(channel) == [("client-back", {"from": "member"})], "an answer")
