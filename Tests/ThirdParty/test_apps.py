"""Several apps in one hub: each by itself, and changed on SIGHUP while everybody stays."""

import json

import pusher
import pytest

from device import Device
from plain import APP, EVERYTHING, Application, Caller, Member, PlainHub, facts, occupied, subscribers
from receiver import Receiver
from waiting import eventually

ONE, TWO = Application("1", "key-1", "secret-1", **EVERYTHING), Application("2", "key-2", "secret-2")


def test_apps_share_nothing():
    with PlainHub(ONE, TWO) as hub, Member(hub, ONE) as ada, Member(hub, TWO) as bob:
        for member in (ada, bob):
            for channel in ("news", "private-news", "cache-news"):
                member.join(channel)
        ONE.backend(hub).trigger(["news", "private-news", "cache-news"], "e", {"of": 1})
        for channel in ("news", "private-news", "cache-news"):
            ada.wait_for_event("e", channel)
        for channel in ("news", "private-news"):
            bob.caught_up(channel)
        assert not bob.heard("e")
        assert facts(hub, "news", "subscription_count", app=ONE)["subscription_count"] == 1
        with Member(hub, TWO) as late:
            late.join("cache-news")
            late.wait_for_event("pusher:cache_miss", "cache-news")
        bob.caught_up("cache-news")
        assert not bob.heard("e")
        # Neither's secret is good for the other.
        with pytest.raises(pusher.errors.PusherBadAuth):
            Application("2", "key-2", ONE.secret).backend(hub).trigger("news", "e", {})
        with pytest.raises(pusher.errors.PusherError):
            Application("2", "key-1", ONE.secret).backend(hub).trigger("news", "e", {})
        signature = Application("2", "key-2", ONE.secret).backend().authenticate("private-x", bob.socket_id)
        bob.subscribe("private-x", **signature)
        bob.refused("private-x")
        signature = ONE.backend().authenticate("private-x", bob.socket_id)
        seen = bob.count()
        bob.subscribe("private-x", **signature)
        bob.refused("private-x", start=seen)
        # What is switched on for one is so for that one.
        seen = bob.count()
        bob.trigger("private-news", "client-e", {})
        bob.complaint(start=seen)


def test_an_excluded_connection_of_the_other_app_is_nobody():
    with PlainHub(ONE, TWO) as hub, Member(hub, ONE) as ada, Member(hub, TWO) as bob:
        ada.join("news")
        bob.join("news")
        TWO.backend(hub).trigger("news", "e", {}, ada.socket_id)
        bob.wait_for_event("e", "news")
        ada.caught_up("news")
        assert not ada.heard("e")


def test_a_reload_drops_nobody():
    one = Application("1", "key-1", "secret-1")
    with PlainHub(one) as hub, Member(hub) as member:
        member.join("private-news")
        seen = member.count()
        member.trigger("private-news", "client-e", {})
        member.complaint(start=seen)
        with Receiver(Application("1", "key-1", "newer")) as receiver:
            changed = Application("1", "key-1", "newer", previousSecret="secret-1", clientEvents=True,
                                  limits={"eventBytes": 100},
                                  webhooks=[{"url": receiver.url(), "events": ["client_events"]}])
            hub.reload(changed, TWO)
            seen = member.count()
            member.trigger("private-news", "client-e", {})
            member.answered()
            assert not [frame for frame in member.frames[seen:] if frame.event == "pusher:error"]
            with Caller(hub, changed) as caller:
                assert caller.publish(["private-news"], data="x" * 100).status == 200
                caller.publish(["private-news"], data="x" * 101).refuses(413)
                assert caller.publish(["private-news"], secret="secret-1").status == 200
            member.eventually_heard("e", "private-news", 2)
            # The new app is served, and by either secret one may join.
            with Member(hub, TWO) as bob:
                bob.join("private-news")
            for app in (one, changed):
                with Member(hub, app) as other:
                    other.join("private-x")
            hub.reload(changed)
            with Device(hub, key="key-2") as bob:
                assert bob.closed() == 4001
            member.answered()
            assert member.is_open


def test_what_is_taken_away_ends():
    with PlainHub(ONE, TWO) as hub, Member(hub, ONE) as ada, Member(hub, TWO) as bob:
        ada.join("news")
        bob.join("news")
        hub.reload(ONE)
        assert bob.closed() == 4001
        ada.answered()
        hub.reload(Application("1", "key-1", "secret-1", enabled=False))
        assert ada.closed() == 4003
        with Device(hub, key="key-1") as late:
            assert late.closed() == 4003
        hub.reload(ONE)
        with Member(hub, ONE) as again:
            again.join("news")
            eventually(lambda: subscribers(hub, "news") == 1, "of old ones nothing")


def test_rotation_of_a_secret_from_end_to_end():
    old = Application("1", "key-1", "old")
    both, new = Application("1", "key-1", "new", previousSecret="old"), Application("1", "key-1", "new")
    with PlainHub(old) as hub, Member(hub, old) as member:
        member.join("private-a")
        hub.reload(both)
        for app in (old, both):
            assert app.backend(hub).trigger("private-a", "e", {}) == {}
        member.eventually_heard("e", "private-a", 2)
        hub.reload(new)
        with pytest.raises(pusher.errors.PusherBadAuth):
            old.backend(hub).trigger("private-a", "e", {})
        member.subscribe("private-b", **old.backend().authenticate("private-b", member.socket_id))
        member.refused("private-b")
        member.backend = new.backend()
        member.join("private-b")


@pytest.mark.parametrize("text", [
    "", "{", '{"apps":[]}', '{"apps":[{"id":"1"}]}', '{"apps":[{"id":"x y","key":"k","secret":"s"}]}'])
def test_a_bad_file_changes_nothing(text):
    with PlainHub(ONE) as hub, Member(hub) as member:
        hub.file.write_text(text)
        line = hub.hang_up()
        assert json.loads(line)["level"] in ("error", "warning") and "secret-1" not in line
        member.join("private-news")
        assert ONE.backend(hub).trigger("private-news", "e", {}) == {}
        member.wait_for_event("e", "private-news")
        hub.reload(ONE, TWO)
        with Member(hub, TWO) as bob:
            bob.join("news")


def test_more_connections_than_the_app_may_have():
    small = Application("1", "key-1", "secret-1", limits={"connections": 3})
    with PlainHub(small, TWO) as hub:
        inside = [Member(hub, small) for _ in range(3)]
        for member in inside:
            member.answered()
        with Device(hub, key="key-1") as fourth:
            assert fourth.closed() == 4004
        with Member(hub, TWO) as other:
            other.answered()
        inside.pop().close()

        def has_room():
            with Device(hub, key="key-1") as next_one:
                found = next_one.wait_for(lambda frame: True, "anything") if next_one.is_open else None
                return found is not None and found.event == "pusher:connection_established"

        eventually(has_room, "there is room again")
        for member in inside:
            member.answered()
            member.close()


def test_many_reloads_under_load():
    """Apps are replaced while clients come, publish and go; nobody of an app that stays is dropped."""
    with PlainHub(APP) as hub, Member(hub) as member:
        member.join("presence-room", "ada")
        backend = APP.backend(hub)
        for turn in range(20):
            hub.reload(APP, *([TWO] if turn % 2 else []))
            with Member(hub) as other:
                other.join("presence-room", f"user-{turn}")
            assert backend.trigger("presence-room", "n", {"n": turn}) == {}
        frames = member.eventually_heard("n", "presence-room", 20)
        assert [frame.data["n"] for frame in frames] == list(range(20))
        assert member.is_open and "presence-room" in occupied(hub)
