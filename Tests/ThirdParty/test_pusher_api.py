"""Pusher's HTTP API: by its own server library where that has the call, and by hand where it has not."""

import concurrent.futures
import json
import random

import pusher
import pytest

from doses import joined
from names import stream
from plain import APP, EVERYTHING, HUBS, Application, Caller, Member, PlainHub, facts, members, occupied
from waiting import eventually
from wire import Wire

SLOW = Application("2", "key-2", "secret-2", limits={"publishesPerSecond": 5})
DISABLED = Application("3", "key-3", "secret-3", enabled=False)


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(APP, SLOW, DISABLED, presence_leaveGrace="300ms", **request.param) as hub:
        yield hub


@pytest.fixture(scope="module")
def backend(plain):
    return APP.backend(plain)


@pytest.fixture
def caller(plain):
    with Caller(plain) as caller:
        yield caller


def name(kind=""):
    return f"{kind}api-{random.SystemRandom().randrange(1 << 40):x}"


# The library.

def test_trigger_to_one(plain, backend):
    channel = name()
    with Member(plain) as member:
        member.join(channel)
        assert backend.trigger(channel, "hello", {"n": 1, "t": "ä \"q\" \u2028"}) == {}
        frame = member.wait_for_event("hello", channel)
        assert json.loads(frame.text) == {"event": "hello", "channel": channel, "data": frame.raw_data}
        assert frame.data == {"n": 1, "t": "ä \"q\" \u2028"}


@pytest.mark.parametrize("text", ["", "words", "{\"a\": 1.50}", "\\\"\u0000\u001f\u007f", "\U0001f48a" * 100])
def test_data_is_passed_byte_for_byte(plain, backend, text):
    channel = name()
    with Member(plain) as member:
        member.join(channel)
        backend.trigger(channel, "text", text)
        assert member.wait_for(lambda frame: '"text"' in frame.text, "it").raw_data == text


def test_trigger_to_a_hundred(plain, backend):
    channels = [name() for _ in range(100)]
    with members(plain, 10) as crowd:
        for member in crowd:
            for channel in channels:
                member.subscribe(channel)
        for member in crowd:
            for channel in channels:
                member.subscribed(channel)
        assert backend.trigger(channels, "hello", {}) == {}
        for member in crowd:
            eventually(lambda: len(member.heard("hello")) == 100, "all hundred")
            assert {frame.channel for frame in member.heard("hello")} == set(channels)


def test_trigger_to_all_but_one(plain, backend):
    """Complaint 14, reverb #246: toOthers."""
    channels = [name(), name("private-"), name("presence-")]
    with members(plain, 6) as crowd:
        for number, member in enumerate(crowd):
            for channel in channels:
                member.join(channel, f"user-{number}" if channel.startswith("presence") else None)
        backend.trigger(channels, "hello", {}, crowd[2].socket_id)
        for member in crowd:
            if member is not crowd[2]:
                eventually(lambda: len(member.heard("hello")) == 3, "all three")
        crowd[2].answered()
        assert not crowd[2].heard("hello")
        # A connection that is gone is nobody's, and no error.
        assert backend.trigger(channels, "hello", {}, "1.1") == {}
        eventually(lambda: len(crowd[2].heard("hello")) == 3, "all three")


def test_trigger_batch(plain, backend):
    channels = [name() for _ in range(5)]
    with Member(plain) as member:
        for channel in channels:
            member.join(channel)
        events = [{"channel": channel, "name": f"n{n}", "data": {"n": n}} for n in (1, 2) for channel in channels]
        assert backend.trigger_batch(events) == {}
        for channel in channels:
            member.eventually_heard("n2", channel, 1)
            assert [frame.event for frame in member.events(channel)] == ["n1", "n2"]


def test_encrypted(plain, backend):
    channel = name("private-encrypted-")
    with Member(plain) as member:
        member.join(channel)
        backend.trigger(channel, "secret", {"dose": 1})
        assert set(member.wait_for_event("secret", channel).data) == {"nonce", "ciphertext"}


def test_channels_info(plain, backend):
    mark = name()
    rooms, news = [f"presence-{mark}-{n}" for n in range(7)], [f"{mark}-{n}" for n in range(9)]
    with members(plain, 3) as crowd:
        for number, member in enumerate(crowd):
            for channel in rooms:
                member.join(channel, f"user-{number % 2}")
            for channel in news:
                member.join(channel)
        assert backend.channels_info(f"presence-{mark}", ["user_count"]) == {
            "channels": {channel: {"user_count": 2} for channel in rooms}}
        assert backend.channels_info(mark) == {"channels": {channel: {} for channel in news}}
        assert backend.channels_info(mark, ["subscription_count"]) == {
            "channels": {channel: {"subscription_count": 3} for channel in news}}
        assert set(rooms) | set(news) <= occupied(plain)
        for member in crowd:
            member.unsubscribe(news[0])
            member.answered()
        eventually(lambda: news[0] not in occupied(plain, mark), "the empty one is gone")
    eventually(lambda: occupied(plain, mark) == set(), "so are all")
    # An object also where nothing is: Reverb answers with a list.
    assert backend.channels_info("nothing-of-the-kind") == {"channels": {}}


def test_channel_info(plain, backend):
    channel = name()
    assert backend.channel_info(channel) == {"occupied": False}
    with members(plain, 3) as crowd:
        for member in crowd:
            member.join(channel)
        assert backend.channel_info(channel, ["subscription_count"]) == {"occupied": True, "subscription_count": 3}
    eventually(lambda: backend.channel_info(channel) == {"occupied": False}, "it is empty")


def test_users_info(plain, backend):
    channel = name("presence-")
    assert backend.users_info(channel) == {"users": []}
    with members(plain, 4) as crowd:
        for number, member in enumerate(crowd):
            member.join(channel, number % 3)
        assert sorted(user["id"] for user in backend.users_info(channel)["users"]) == ["0", "1", "2"]


@pytest.mark.parametrize("odd", ["a;b", "a,b", "a@b", "a=b", "a.b_c-d", "a;b,c@d=e.f"])
def test_names_with_odd_letters(plain, backend, odd):
    channel = f"presence-{odd}-{name()}"
    with Member(plain) as member:
        member.join(channel, "u@x;y,z=1")
        assert backend.channel_info(channel) == {"occupied": True}
        assert backend.users_info(channel) == {"users": [{"id": "u@x;y,z=1"}]}
        assert backend.channels_info(channel)["channels"] == {channel: {}}
        backend.trigger(channel, "e", {})
        member.wait_for_event("e", channel)


def test_a_subscriber_gets_all_that_is_published_after_its_answer(plain, backend):
    """An answered publish has been handed on: rivals lose the first events."""
    with Member(plain) as member:
        for _ in range(40):
            channel = name()
            member.join(channel)
            backend.trigger(channel, "first", {})
            member.wait_for_event("first", channel)


def test_concurrent_publishers_keep_their_own_order(plain):
    channel, each = name(), 150
    with Member(plain) as member, concurrent.futures.ThreadPoolExecutor(4) as pool:
        member.join(channel)

        def publish(by):
            own = APP.backend(plain)
            for n in range(each):
                own.trigger(channel, "n", {"by": by, "n": n})

        list(pool.map(publish, range(4)))
        frames = member.eventually_heard("n", channel, 4 * each)
        for by in range(4):
            assert [frame.data["n"] for frame in frames if frame.data["by"] == by] == list(range(each))


def test_errors_as_the_library_tells_them(plain, backend):
    with pytest.raises(pusher.errors.PusherBadAuth):
        # soketi says so with status 200.
        APP.backend(plain, secret="wrong").trigger("x", "e", {})
    with pytest.raises(pusher.errors.PusherForbidden):
        DISABLED.backend(plain).trigger("x", "e", {})
    with pytest.raises(pusher.errors.PusherBadRequest):
        backend.users_info("not-presence")
    with pytest.raises(pusher.errors.PusherBadRequest):
        backend.channels_info("private-", ["user_count"])
    with pytest.raises(pusher.errors.PusherBadStatus, match="413"):
        backend.trigger("x", "e", "x" * 10_241)
    with pytest.raises(pusher.errors.PusherBadStatus, match="404"):
        Application("99", "key-1", "x").backend(plain).trigger("x", "e", {})


# By hand: what the library has not.

def test_info_of_what_was_published_to(plain, caller):
    news, room, empty = name(), name("presence-"), name()
    with members(plain, 3) as crowd:
        for number, member in enumerate(crowd):
            member.join(news)
            member.join(room, f"user-{number % 2}")
        answer = caller.publish([news, room, empty], info="subscription_count")
        assert (answer.status, answer.body) == (200, {"channels": {
            news: {"subscription_count": 3}, room: {"subscription_count": 3}, empty: {"subscription_count": 0}}})
        answer = caller.publish([room], info="user_count,subscription_count")
        assert answer.body == {"channels": {room: {"user_count": 2, "subscription_count": 3}}}
        answer = caller.call("POST", "/batch_events", {"batch": [
            {"name": "e", "data": "{}", "channel": empty},
            {"name": "e", "data": "{}", "channel": news, "info": "subscription_count"},
            {"name": "e", "data": "{}", "channel": room, "info": "user_count"}]})
        assert (answer.status, answer.body) == (
            200, {"batch": [{}, {"subscription_count": 3}, {"user_count": 2}]})


def test_one_channel_by_its_own_member(plain, caller):
    channel = name()
    with Member(plain) as member:
        member.join(channel)
        answer = caller.call("POST", "/events", {"name": "e", "data": "{}", "channel": channel})
        assert (answer.status, answer.body) == (200, {})
        member.wait_for_event("e", channel)


def test_deprecated_publish(plain, caller):
    channel = name()
    with members(plain, 2) as (member, sender):
        member.join(channel)
        sender.join(channel)
        answer = caller.call("POST", f"/channels/{channel}/events", b'{"n":1}',
                             query={"name": "old", "socket_id": sender.socket_id})
        assert answer.status == 202, answer
        assert member.wait_for_event("old", channel).raw_data == '{"n":1}'
        sender.answered()
        assert not sender.heard("old")


def test_deprecated_stats(plain, caller):
    channel = name()
    with Member(plain) as member:
        member.join(channel)
        answer = caller.get(f"/channels/{channel}/stats")
        assert answer.status == 200 and isinstance(answer.body, dict), answer


def test_keep_alive(plain, caller):
    """soketi and Reverb close after each publish."""
    for _ in range(50):
        answer = caller.publish([name()])
        assert answer.status == 200 and answer.fields.get("connection", "keep-alive").lower() != "close"
        assert answer.fields["content-type"].startswith("application/json")


def test_pipelined(plain, caller):
    channel = name()
    with Member(plain) as member, Wire(plain) as wire:
        member.join(channel)
        data = b""
        for n in range(100):
            body = json.dumps({"name": "n", "channels": [channel], "data": str(n)}).encode()
            target = caller.signed("POST", "/apps/1/events", body=body)
            data += (f"POST {target} HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        wire.send(data)
        for _ in range(100):
            answer = wire.response()
            assert (answer.status, answer.body) == (200, b"{}")
        assert [frame.data for frame in member.eventually_heard("n", channel, 100)] == list(range(100))


# The channels that an app's database feeds.

def test_streams_are_the_databases_alone(hub, user):
    app = Application()
    with joined(hub, user) as device:
        device.subscribed(stream(user))
        backend = app.backend(hub)
        with pytest.raises(pusher.errors.PusherBadRequest, match="database"):
            backend.trigger(stream(user), "occurrence.updated", {})
        with pytest.raises(pusher.errors.PusherBadRequest):
            backend.trigger_batch([{"channel": stream(user), "name": "x", "data": "{}"}])
        device.answered()
        assert not device.events(stream(user))
        assert stream(user) in backend.channels_info("user.")["channels"]
        assert backend.channel_info(stream(user))["occupied"] is True
        # All else of Pusher is there beside the database.
        with Member(hub, app) as member:
            member.join("news")
            backend.trigger("news", "e", {})
            member.wait_for_event("e", "news")


def test_everything_of_the_demonstration_is_on(hub):
    """`carillon dev` is where one tries things."""
    with members(hub, 2, app=Application(**EVERYTHING)) as (ada, bob):
        ada.join("private-dev")
        bob.join("private-dev")
        ada.trigger("private-dev", "client-e", {})
        bob.wait_for_event("client-e", "private-dev")
        assert facts(hub, "private-dev", "subscription_count", app=Application())["subscription_count"] == 2
