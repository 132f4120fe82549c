"""Presence channels: who is a member, told to all, right after whatever happens to their connections."""

import contextlib
import json
import random

import pytest

from client import Client
from hub import APP_SECRET
from plain import APP, HUBS, Application, Member, PlainHub, facts, members, subscribers
from waiting import eventually

GRACE = "300ms"


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    """Leaves take effect soon."""
    with PlainHub(presence_leaveGrace=GRACE, **request.param) as hub:
        yield hub


@pytest.fixture
def channel(request):
    return f"presence-{request.node.name.partition('[')[0]}-{random.SystemRandom().randrange(1 << 40):x}"


def added(member, channel):
    return [frame.data for frame in member.heard("pusher_internal:member_added", channel)]


def removed(member, channel):
    return [frame.data for frame in member.heard("pusher_internal:member_removed", channel)]


def ids(hub, channel):
    return sorted(user["id"] for user in hub.apps[0].backend(hub).users_info(channel)["users"])


def test_the_frames(plain, channel):
    """Frames of protocol 7: `data` is a text, ids are texts, the hash is an object."""
    with members(plain, 2) as (ada, bob):
        ack = ada.join(channel, "ada", {"name": "Ada", "n": 1.50})
        assert json.loads(ack.text) == {
            "event": "pusher_internal:subscription_succeeded", "channel": channel, "data": ack.raw_data}
        assert ack.data == {"presence": {"ids": ["ada"], "hash": {"ada": {"name": "Ada", "n": 1.50}}, "count": 1}}
        ack = bob.join(channel, "bob", {"name": "Bob"})
        presence = ack.data["presence"]
        assert presence["count"] == 2 and sorted(presence["ids"]) == ["ada", "bob"]
        assert presence["hash"] == {"ada": {"name": "Ada", "n": 1.50}, "bob": {"name": "Bob"}}
        frame = ada.wait_for_event("pusher_internal:member_added", channel)
        assert json.loads(frame.text) == {
            "event": "pusher_internal:member_added", "channel": channel, "data": frame.raw_data}
        assert frame.data == {"user_id": "bob", "user_info": {"name": "Bob"}}
        bob.unsubscribe(channel)
        frame = ada.wait_for_event("pusher_internal:member_removed", channel)
        assert json.loads(frame.text) == {
            "event": "pusher_internal:member_removed", "channel": channel, "data": '{"user_id":"bob"}'}
        bob.answered()
        # No member is told of its own join.
        assert not added(bob, channel) and not removed(bob, channel) and len(added(ada, channel)) == 1


def test_the_signature_covers_the_raw_text(plain):
    """The signature covers `channel_data` as sent, with its spaces."""
    with Member(plain) as member:
        text = '{  "user_id" : 10,\t"user_info":{"name":"Mr. Channels"} }'
        auth = APP.backend().authenticate("presence-vector", member.socket_id)["auth"]
        member.subscribe("presence-vector", auth=auth, channel_data=text)
        assert member.refused("presence-vector").data["status"] == 401
        seen = member.count()
        member.ask_with("presence-vector", text)
        presence = member.subscribed("presence-vector", start=seen).data["presence"]
        assert presence == {"ids": ["10"], "hash": {"10": {"name": "Mr. Channels"}}, "count": 1}


def test_numbers_are_the_same_users_as_texts(plain, channel):
    with members(plain, 3) as (watcher, number, text):
        watcher.join(channel, "watcher")
        number.join(channel, 7)
        assert watcher.wait_for_event("pusher_internal:member_added", channel).data["user_id"] == "7"
        ack = text.join(channel, "7")
        assert ack.data["presence"]["count"] == 2
        watcher.answered()
        assert len(added(watcher, channel)) == 1
        assert ids(plain, channel) == ["7", "watcher"]


def test_several_connections_of_one_user_are_one_member(plain, channel):
    with contextlib.ExitStack() as stack, Member(plain) as watcher:
        watcher.join(channel, "watcher")
        devices = [stack.enter_context(Member(plain)) for _ in range(7)]
        for device in devices:
            presence = device.join(channel, "ada", {"device": "any"}).data["presence"]
            assert sorted(presence["ids"]) == ["ada", "watcher"] and presence["count"] == 2
        assert facts(plain, channel, "user_count", "subscription_count") == {
            "occupied": True, "user_count": 2, "subscription_count": 8}
        for device in devices[:-1]:
            device.unsubscribe(channel)
            device.answered()
        eventually(lambda: subscribers(plain, channel) == 2, "they have left")
        watcher.answered()
        assert len(added(watcher, channel)) == 1 and not removed(watcher, channel)
        devices[-1].unsubscribe(channel)
        assert watcher.wait_for_event("pusher_internal:member_removed", channel).data == {"user_id": "ada"}


def test_a_connection_that_ends_and_comes_back_never_left(plain, channel):
    with Member(plain) as watcher:
        watcher.join(channel, "watcher")
        for _ in range(5):
            with Member(plain) as device:
                device.join(channel, "ada")
                device.drop()
        with Member(plain) as device:
            device.join(channel, "ada")
            eventually(lambda: subscribers(plain, channel) == 2, "the others ended")
            watcher.answered()
            assert len(added(watcher, channel)) == 1 and not removed(watcher, channel)
            assert ids(plain, channel) == ["ada", "watcher"]
        assert watcher.wait_for_event("pusher_internal:member_removed", channel).data == {"user_id": "ada"}
        assert ids(plain, channel) == ["watcher"]


def test_the_grace_of_three_seconds():
    """Pusher's own: who comes back within it was never away, and who does not is gone after it."""
    with PlainHub() as hub, Member(hub) as watcher:
        watcher.join("presence-slow", "watcher")
        with Member(hub) as device:
            device.join("presence-slow", "ada")
            device.drop()
        with Member(hub) as device:
            assert device.join("presence-slow", "ada").data["presence"]["count"] == 2
            device.drop()
        assert watcher.wait_for_event("pusher_internal:member_removed", "presence-slow").data == {"user_id": "ada"}
        assert len(added(watcher, "presence-slow")) == 1
        # An unsubscribe is meant.
        with Member(hub) as device:
            device.join("presence-slow", "bob")
            device.unsubscribe("presence-slow")
            device.answered()
            watcher.wait_for(lambda frame: frame.event.endswith("member_removed") and frame.data["user_id"] == "bob",
                             "bob is removed", timeout=2.5)


@pytest.mark.parametrize("code, leaves", [(1000, True), (1001, False), (1011, False), (4000, False)])
def test_a_clean_close_leaves_at_once(code, leaves):
    with PlainHub(presence_leaveGrace="5m") as hub, Member(hub) as watcher:
        watcher.join("presence-room", "watcher")
        with Member(hub) as device:
            device.join("presence-room", "ada")
            device.end(code)
        eventually(lambda: subscribers(hub, "presence-room") == 1, "it has left")
        watcher.caught_up("presence-room")
        assert removed(watcher, "presence-room") == ([{"user_id": "ada"}] if leaves else [])
        assert ids(hub, "presence-room") == (["watcher"] if leaves else ["ada", "watcher"])


def test_no_ghosts_after_all_connections_die_at_once(plain, channel):
    """Complaint 8: members stay for ever after their phones crash (no close frame, no FIN)."""
    count = 90
    with Member(plain) as watcher:
        watcher.join(channel, "watcher")
        with members(plain, count) as crowd:
            for number, member in enumerate(crowd):
                member.ask_for(channel, f"user-{number}", {"n": number})
            for member in crowd:
                member.subscribed(channel)
            eventually(lambda: len(added(watcher, channel)) == count, "all are told of")
            assert facts(plain, channel, "user_count")["user_count"] == count + 1
            for member in crowd:
                member.drop()
        eventually(lambda: len(removed(watcher, channel)) == count, "all are gone")
        watcher.answered()
        assert len({data["user_id"] for data in removed(watcher, channel)}) == count
        assert ids(plain, channel) == ["watcher"]
        assert facts(plain, channel, "user_count", "subscription_count") == {
            "occupied": True, "user_count": 1, "subscription_count": 1}


def test_a_join_while_others_leave_gets_the_right_list(plain, channel):
    """The list that a newcomer gets and the changes that follow add up to what the API says, while others come and go."""
    seed = random.SystemRandom().randrange(1 << 32)
    choices = random.Random(seed)
    with members(plain, 24) as crowd:
        inside = set()
        for _ in range(300):
            member = choices.choice(crowd)
            if member in inside and choices.random() < 0.7:
                member.unsubscribe(channel)
                inside.discard(member)
            else:
                member.ask_for(channel, f"user-{crowd.index(member) % 10}")
                inside.add(member)
        for member in crowd:
            member.answered()
        if not inside:
            inside.add(crowd[0])
            crowd[0].join(channel, "user-0")
        expected = sorted({f"user-{crowd.index(member) % 10}" for member in inside})
        eventually(lambda: ids(plain, channel) == expected, f"the API's list, seed {seed}")
        for member in inside:
            eventually(lambda: view(member, channel) == expected, f"a member's own list, seed {seed}")


def view(member, channel):
    """The members as pusher-js would have them, from what this member heard."""
    there = set()
    for frame in list(member.frames):
        if frame.channel != channel:
            continue
        if frame.event == "pusher_internal:subscription_succeeded":
            there = set(frame.data["presence"]["ids"])
        elif frame.event == "pusher_internal:member_added":
            there.add(frame.data["user_id"])
        elif frame.event == "pusher_internal:member_removed":
            there.discard(frame.data["user_id"])
    return sorted(there)


def test_a_second_subscribe_is_answered_with_the_members_of_now(plain, channel):
    with members(plain, 2) as (ada, bob):
        ada.join(channel, "ada")
        bob.join(channel, "bob")
        presence = ada.join(channel, "ada").data["presence"]
        assert sorted(presence["ids"]) == ["ada", "bob"] and presence["count"] == 2
        bob.answered()
        assert not added(bob, channel)
        ada.unsubscribe(channel)
        bob.wait_for_event("pusher_internal:member_removed", channel)


def test_members_without_info(plain, channel):
    """An object in every place where one belongs."""
    with members(plain, 2) as (ada, bob):
        hash_ = ada.join(channel, "ada").data["presence"]["hash"]
        assert isinstance(hash_, dict) and list(hash_) == ["ada"]
        bob.join(channel, "bob")
        assert ada.wait_for_event("pusher_internal:member_added", channel).data["user_id"] == "bob"


def test_the_hundred_and_first_member_is_refused(plain, channel):
    with members(plain, 102) as crowd:
        for number, member in enumerate(crowd[:100]):
            member.ask_for(channel, f"user-{number}")
        for member in crowd[:100]:
            member.subscribed(channel)
        crowd[100].ask_for(channel, "user-100")
        refusal = crowd[100].refused(channel).data
        assert refusal["type"] == "LimitReached" or "100" in refusal["error"], refusal
        crowd[100].answered()
        # Another connection of a member is none more.
        assert crowd[101].join(channel, "user-7").data["presence"]["count"] == 100
        assert facts(plain, channel, "user_count")["user_count"] == 100


def test_info_at_the_bound_and_one_past_it(plain, channel):
    with members(plain, 2) as (small, large):
        room = 1024 - len(json.dumps({"t": ""}))
        small.join(channel, "small", {"t": "x" * room})
        large.ask_for(channel, "large", {"t": "x" * (room + 1)})
        large.refused(channel)
        large.answered()
        assert ids(plain, channel) == ["small"]


def test_the_signed_in_user_is_the_member_where_no_data_says_who(plain, channel):
    with members(plain, 2) as (ada, bob):
        bob.join(channel, "bob")
        ada.sign_in_as("ada", user_info={"name": "Ada"})
        presence = ada.join(channel).data["presence"]
        assert presence["hash"]["ada"] == {"name": "Ada"}
        assert bob.wait_for_event("pusher_internal:member_added", channel).data == {
            "user_id": "ada", "user_info": {"name": "Ada"}}


@pytest.mark.parametrize("data", [
    "", "x", "[]", "{}", '{"user_id":""}', '{"user_id":null}', '{"user_id":{}}', '{"user_id":true}', '{"user_id":[1]}',
    '{"user_id":"a","user_info":' + "[" * 2000 + "]" * 2000 + "}",
])
def test_nonsense_for_data_is_refused(plain, channel, data):
    with Member(plain) as member:
        member.ask_with(channel, data)
        member.refused(channel)
        member.answered()
        assert not facts(plain, channel)["occupied"]


def test_no_member_without_data_or_signin(plain, channel):
    with Member(plain) as member:
        member.ask_for(channel)
        member.refused(channel)
        member.answered()


def test_a_signature_of_another_connection_or_another_user(plain, channel):
    with members(plain, 2) as (ada, mallory):
        stolen = APP.backend().authenticate(channel, ada.socket_id, {"user_id": "ada"})
        mallory.subscribe(channel, **stolen)
        assert mallory.refused(channel).data["status"] == 401
        own = APP.backend().authenticate(channel, mallory.socket_id, {"user_id": "mallory"})
        seen = mallory.count()
        mallory.subscribe(channel, auth=own["auth"], channel_data='{"user_id": "ada"}')
        assert mallory.refused(channel, start=seen).data["status"] == 401
        # The refusal is no end: the right one is taken (pusher-js #255, #292, #402, #750: stuck channels).
        mallory.join(channel, "mallory")


def test_unsubscribe_before_the_answer(plain, channel):
    """pusher-js makes these races. Whatever comes between, the last word counts."""
    with members(plain, 2) as (watcher, member):
        watcher.join(channel, "watcher")
        for _ in range(30):
            member.ask_for(channel, "ada")
            member.unsubscribe(channel)
        member.ask_for(channel, "ada")
        member.unsubscribe(channel)
        member.ask_for(channel, "ada")
        member.answered()
        eventually(lambda: ids(plain, channel) == ["ada", "watcher"], "ada is in")
        member.unsubscribe(channel)
        eventually(lambda: ids(plain, channel) == ["watcher"], "ada is out")
        eventually(lambda: view(watcher, channel) == ["watcher"], "and the other knows")


def test_pysher_is_a_member(plain, channel):
    with Client(plain, secret=APP_SECRET, user_data={"user_id": "py", "user_info": {"name": "Pysher"}}) as client:
        with Member(plain) as ada:
            client.subscribe(channel)
            presence = json.loads(client.subscribed(channel))["presence"]
            assert presence == {"ids": ["py"], "hash": {"py": {"name": "Pysher"}}, "count": 1}
            ada.join(channel, "ada", {"name": "Ada"})
            data = json.loads(client.wait_for(channel, "pusher_internal:member_added"))
            assert data == {"user_id": "ada", "user_info": {"name": "Ada"}}
        assert json.loads(client.wait_for(channel, "pusher_internal:member_removed")) == {"user_id": "ada"}


def test_apps_do_not_see_each_others_members():
    one, two = Application("1", "key-1", "secret-1"), Application("2", "key-2", "secret-2")
    with PlainHub(one, two, presence_leaveGrace=GRACE) as hub, Member(hub, one) as ada, Member(hub, two) as bob:
        ada.join("presence-room", "ada")
        assert bob.join("presence-room", "bob").data["presence"]["ids"] == ["bob"]
        ada.answered()
        assert not added(ada, "presence-room")
        assert one.backend(hub).users_info("presence-room")["users"] == [{"id": "ada"}]
        assert two.backend(hub).users_info("presence-room")["users"] == [{"id": "bob"}]


@pytest.mark.parametrize("leaves", ["unsubscribes", "drops", "stays"])
def test_the_newest_user_info_stands(channel, leaves):
    """A member comes back under another name. It and all who join later are told the new name, once."""
    with PlainHub(presence_leaveGrace="60s") as plain, contextlib.ExitStack() as stack:
        watcher, old, new, late = (stack.enter_context(Member(plain)) for _ in range(4))
        watcher.join(channel, "w", {})
        assert old.join(channel, "u", {"name": "before"}).data["presence"]["hash"]["u"] == {"name": "before"}
        watcher.wait_for_event("pusher_internal:member_added", channel)
        if leaves == "drops":
            old.drop()
        elif leaves == "unsubscribes":
            old.unsubscribe(channel)
            watcher.wait_for_event("pusher_internal:member_removed", channel)
        assert new.join(channel, "u", {"name": "after"}).data["presence"]["hash"] == {"w": {}, "u": {"name": "after"}}
        assert late.join(channel, "l").data["presence"]["hash"]["u"] == {"name": "after"}
        if leaves == "stays":
            # The older one alone is left, and what the newest said stays.
            new.unsubscribe(channel)
            new.answered()
            later = stack.enter_context(Member(plain))
            assert later.join(channel, "m").data["presence"]["hash"]["u"] == {"name": "after"}
        watcher.caught_up(channel)
        names = [data["user_info"].get("name") for data in added(watcher, channel) if data["user_id"] == "u"]
        assert names == (["before", "after"] if leaves == "unsubscribes" else ["before"])
        assert len(removed(watcher, channel)) == (1 if leaves == "unsubscribes" else 0)
