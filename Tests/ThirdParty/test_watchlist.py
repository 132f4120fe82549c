"""Watchlists: a signed-in user hears which of the users it watches are online, and of each change."""

import json
import random

import pytest

from plain import EVERYTHING, APP, HUBS, Application, Member, PlainHub, members
from waiting import eventually

EVENT = "pusher_internal:watchlist_events"
SILENT = Application("2", "key-2", "secret-2", **{**EVERYTHING, "watchlists": False})


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(APP, SILENT, presence_leaveGrace="300ms", **request.param) as hub:
        yield hub


@pytest.fixture
def who():
    mark = f"{random.SystemRandom().randrange(1 << 40):x}"
    return lambda name: f"{name}-{mark}"


def states(member):
    """Each watched user's, as of now, as pusher-js would have it."""
    found = {}
    for frame in member.heard(EVENT):
        for event in frame.data["events"]:
            for user in event["user_ids"]:
                found[user] = event["name"]
    return found


def test_the_watchlist_tells_presence_and_changes(plain, who):
    with members(plain, 3) as (watcher, bob, again):
        bob.sign_in_as(who("bob"))
        watcher.sign_in_as(who("ada"), watchlist=[who("bob"), who("eve")])
        frame = watcher.wait_for_event(EVENT)
        assert json.loads(frame.text) == {"event": EVENT, "data": frame.raw_data} and isinstance(frame.raw_data, str)
        eventually(lambda: states(watcher) == {who("bob"): "online", who("eve"): "offline"}, "both states")
        with Member(plain) as eve:
            eve.sign_in_as(who("eve"))
            eventually(lambda: states(watcher)[who("eve")] == "online", "eve is online")
            # A second connection of hers is no change, and neither is its end.
            again.sign_in_as(who("eve"))
        count = len(watcher.heard(EVENT))
        again.answered()
        again.close()
        eventually(lambda: states(watcher)[who("eve")] == "offline", "eve is offline")
        assert len(watcher.heard(EVENT)) == count + 1
        assert states(watcher)[who("bob")] == "online"


def test_a_user_who_comes_back_in_time_never_left(plain, who):
    with Member(plain) as watcher:
        watcher.sign_in_as(who("ada"), watchlist=[who("bob")])
        with Member(plain) as bob:
            bob.sign_in_as(who("bob"))
            eventually(lambda: states(watcher) == {who("bob"): "online"}, "online")
            bob.drop()
        with Member(plain) as bob:
            bob.sign_in_as(who("bob"))
            watcher.answered()
            changes = [event["name"] for frame in watcher.heard(EVENT) for event in frame.data["events"]]
            assert changes[-1] == "online" and changes.count("offline") <= 1
        eventually(lambda: states(watcher) == {who("bob"): "offline"}, "offline")


def test_both_ways(plain, who):
    with members(plain, 2) as (ada, bob):
        ada.sign_in_as(who("ada"), watchlist=[who("bob")])
        bob.sign_in_as(who("bob"), watchlist=[who("ada")])
        for member, other in ((ada, "bob"), (bob, "ada")):
            eventually(lambda: states(member) == {who(other): "online"}, "each other")


def test_a_crowd_that_ends_at_once(plain, who):
    names = [who(f"user-{number}") for number in range(60)]
    with Member(plain) as watcher:
        watcher.sign_in_as(who("ada"), watchlist=names)
        with members(plain, 60) as crowd:
            for name, member in zip(names, crowd):
                member.sign_in_as(name)
            eventually(lambda: set(states(watcher).values()) == {"online"} and len(states(watcher)) == 60, "all online")
            for member in crowd:
                member.drop()
        eventually(lambda: set(states(watcher).values()) == {"offline"}, "all offline")


def test_more_than_a_hundred_are_cut(plain, who):
    names = [who(f"user-{number}") for number in range(101)]
    with Member(plain) as watcher:
        watcher.sign_in_as(who("ada"), watchlist=names)
        assert watcher.wait_for(lambda frame: frame.event == "pusher:error", "a complaint").data["code"] == 4302
        eventually(lambda: len(states(watcher)) == 100, "a hundred of them")
        watcher.answered()
        assert set(states(watcher)) == set(names[:100]) and watcher.is_open


def test_not_where_it_is_off(plain, who):
    with members(plain, 2, app=SILENT) as (ada, bob):
        bob.sign_in_as(who("bob"))
        ada.sign_in_as(who("ada"), watchlist=[who("bob")])
        ada.answered()
        assert not ada.heard(EVENT)


@pytest.mark.parametrize("watchlist", ["bob", {"bob": 1}, [1, None, {"a": []}], [""], []])
def test_nonsense_ends_nothing(plain, who, watchlist):
    with Member(plain) as ada:
        data = {"id": who("ada"), "watchlist": watchlist}
        ada.send("pusher:signin", ada.backend.authenticate_user(ada.socket_id, data))
        ada.answered()
        assert ada.is_open and not states(ada)
