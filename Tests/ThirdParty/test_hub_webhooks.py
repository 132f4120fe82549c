"""What hubs that share Redis tell backends, one hub for all."""

import contextlib
import json
import time

import pytest

from plain import Application, EVERYTHING, Member
from receiver import Receiver
from test_many_hubs import group, redis
from waiting import eventually

KINDS = ["channel_existence", "presence", "client_events"]


@contextlib.contextmanager
def hooked(redis, hubs, answer=lambda hook: 200):
    """That many hubs, whose app has a webhook at the receiver."""
    with Receiver(Application(**EVERYTHING), answer=answer) as receiver:
        app = Application(**EVERYTHING, webhooks=[{"url": receiver.url(), "events": KINDS}])
        with group(redis, hubs, CARILLON_APPS=json.dumps([app.setting()]),
                   CARILLON_WEBHOOKS_ALLOW_PRIVATE="true") as group_of_hubs:
            yield group_of_hubs, receiver


@pytest.fixture(params=[1, 3], ids=["one hub", "three hubs"])
def count(request):
    return request.param


def test_a_channels_events_come_in_its_order(redis, count):
    """A client says something as soon as it sees a newcomer, at whichever hub: the backend hears of the newcomer first."""
    with hooked(redis, count) as (hubs, receiver), contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(Member(hub)) for hub in hubs]
        for number in range(6):
            channel = f"presence-{number}"
            for index, watcher in enumerate(watchers):
                watcher.join(channel, f"watcher-{index}")
            stack.enter_context(Member(hubs[number % count])).join(channel, "newcomer")
            for index, watcher in enumerate(watchers):
                eventually(lambda: any("newcomer" in frame.raw_data for frame in
                                       watcher.heard("pusher_internal:member_added", channel)), "the newcomer is there")
                watcher.trigger(channel, "client-hello", {"n": index})
            told = receiver.eventually(
                lambda events: sum(event["name"] == "client_event" and event["channel"] == channel
                                   for event in events) == count, "all is told")
            names = [(event["name"], event.get("user_id")) for event in told if event["channel"] == channel]
            assert names[0] == ("channel_occupied", None)
            newcomer = names.index(("member_added", "newcomer"))
            assert all(name == "member_added" for name, _ in names[1:newcomer])
            assert [name for name, _ in names[newcomer + 1:]] == ["client_event"] * count, names


def test_client_events_outlive_the_hub_that_heard_them(redis):
    """The endpoint fails while the hub lives; another hub tells it."""
    well = []
    with hooked(redis, 2, lambda hook: 200 if well else 500) as ((first, second), receiver), \
            Member(second) as bob, Member(first) as ada:
        bob.join("presence-room", "bob")
        ada.join("presence-room", "ada")
        for number in range(5):
            ada.trigger("presence-room", "client-hello", {"n": number})
        bob.eventually_heard("client-hello", "presence-room", 5)
        first.kill()
        killed_at = time.monotonic()
        well.append(True)

        def told():
            events = [event for hook in list(receiver.hooks) if hook.at > killed_at
                      for event in hook.validated(receiver.app)["events"]]
            return {json.loads(event["data"])["n"] for event in events if event["name"] == "client_event"} == {*range(5)}
        eventually(told, "all five are told")
