"""`pusher_internal:subscription_count`: how many are in a channel, told to those who are."""

import contextlib
import json
import random

import pytest

from plain import EVERYTHING, APP, HUBS, Application, Member, PlainHub, facts, members
from waiting import eventually

SILENT = Application("2", "key-2", "secret-2", **{**EVERYTHING, "subscriptionCounts": False})
EVENT = "pusher_internal:subscription_count"


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(APP, SILENT, **request.param) as hub:
        yield hub


def name(kind):
    return f"{kind}{random.SystemRandom().randrange(1 << 40):x}"


def last(member, channel):
    counts = member.heard(EVENT, channel)
    return counts[-1].data["subscription_count"] if counts else None


@pytest.mark.parametrize("kind", ["", "private-", "cache-", "private-encrypted-"])
def test_each_change_is_told(plain, kind):
    channel = name(kind)
    with Member(plain) as first:
        first.join(channel)
        frame = first.wait_for_event(EVENT, channel)
        assert json.loads(frame.text) == {"event": EVENT, "channel": channel, "data": '{"subscription_count":1}'}
        with members(plain, 4) as others:
            for other in others:
                other.join(channel)
                other.wait_for_event(EVENT, channel)
            eventually(lambda: last(first, channel) == 5, "five")
            others[0].unsubscribe(channel)
            eventually(lambda: last(first, channel) == 4, "four")
        eventually(lambda: last(first, channel) == 1, "one")
        assert facts(plain, channel, "subscription_count")["subscription_count"] == 1


def test_after_the_answer(plain):
    channel = name("")
    with Member(plain) as member:
        member.join(channel)
        member.wait_for_event(EVENT, channel)
        assert [frame.event for frame in member.frames if frame.channel == channel] == [
            "pusher_internal:subscription_succeeded", EVENT]


def test_not_on_presence_channels_and_not_where_it_is_off(plain):
    channel = name("presence-")
    with members(plain, 2) as (ada, bob):
        ada.join(channel, "ada")
        bob.join(channel, "bob")
        ada.answered()
        assert not ada.heard(EVENT)
    channel = name("")
    with members(plain, 2, app=SILENT) as (ada, bob):
        ada.join(channel)
        bob.join(channel)
        ada.answered()
        assert not ada.heard(EVENT)


def test_a_crowd_is_told_at_most_every_five_seconds_and_of_the_end(plain):
    """Above a hundred: a thousand changes are no thousand times a hundred messages, and the last value is right."""
    channel = name("")
    with Member(plain) as watcher, members(plain, 130) as crowd:
        watcher.join(channel)
        for member in crowd:
            member.ask_for(channel)
        for member in crowd:
            member.subscribed(channel)
        eventually(lambda: last(watcher, channel) == 131, "all of them")
        seen = len(watcher.heard(EVENT, channel))
        with contextlib.ExitStack() as stack:
            more = [stack.enter_context(Member(plain)) for _ in range(40)]
            for member in more:
                member.join(channel)
            for member in more:
                member.unsubscribe(channel)
                member.answered()
        for member in crowd[:10]:
            member.unsubscribe(channel)
        eventually(lambda: last(watcher, channel) == 121, "the last value")
        # Ninety changes; they took some seconds at the very most on a busy machine.
        assert len(watcher.heard(EVENT, channel)) - seen <= 12
