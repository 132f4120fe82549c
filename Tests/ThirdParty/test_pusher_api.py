"""Pusher's HTTP API: by its own server library where that has the call, and by hand where it has not."""

import concurrent.futures
import json
import random
import threading
import time
from urllib.parse import quote

import pusher
import pytest

from doses import joined
from names import stream
from plain import APP, EVERYTHING, Application, Caller, Member, PlainHub, facts, members, occupied
from waiting import eventually
from wire import Wire

SLOW = Application("2", "key-2", "secret-2", limits={"publishesPerSecond": 5, "publishesBurst": 10})
DISABLED = Application("3", "key-3", "secret-3", enabled=False)


@pytest.fixture(scope="module")
def plain():
    with PlainHub(APP, SLOW, DISABLED, presence_leaveGrace="300ms") as hub:
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
    """Complaints 14, reverb #246: toOthers."""
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
    """And one who sees his publish answered finds it handed on: rivals lose the first events."""
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


# Signatures.

def test_a_signature_is_of_everything(caller):
    body = b'{"name":"e","channels":["x"],"data":"{}"}'
    right = caller.signed("POST", "/apps/1/events", body=body)
    assert caller.send("POST", right, body).status == 200
    wrong = {
        "another secret": (caller.signed("POST", "/apps/1/events", body=body, secret="wrong"), body),
        "another method": (caller.signed("GET", "/apps/1/events", body=body), body),
        "another path": (right.replace("/apps/1/events", "/apps/1/batch_events"), body),
        "another body": (right, body.replace(b'"e"', b'"f"')),
        "no signature": (right.partition("&auth_signature")[0], body),
        "half a signature": (right[:-10], body),
        "an empty one": (right.partition("&auth_signature=")[0] + "&auth_signature=", body),
        "capitals": (right.rpartition("=")[0] + "=" + "Z" * 64, body),
        "one more parameter": (right + "&info=user_count", body),
        "no body_md5": (caller.signed("POST", "/apps/1/events", body=body, body_md5=None), body),
        "a wrong body_md5": (caller.signed("POST", "/apps/1/events", body=body, body_md5="0" * 32), body),
        "no key": (caller.signed("POST", "/apps/1/events", body=body, auth_key=None), body),
        "another app's key": (caller.signed("POST", "/apps/1/events", body=body, auth_key="key-2"), body),
        "no time": (caller.signed("POST", "/apps/1/events", body=body, auth_timestamp=None), body),
        "no such time": (caller.signed("POST", "/apps/1/events", body=body, auth_timestamp="yesterday"), body),
        "a huge time": (caller.signed("POST", "/apps/1/events", body=body, auth_timestamp="9" * 40), body),
        "a negative time": (caller.signed("POST", "/apps/1/events", body=body, auth_timestamp="-1"), body),
        "another version": (caller.signed("POST", "/apps/1/events", body=body, auth_version="2.0"), body),
        "nothing": ("/apps/1/events", body),
    }
    for what, (target, sent) in wrong.items():
        answer = caller.send("POST", target, sent)
        assert answer.status == 401, (what, answer)
        answer.refuses(401)
        # What would have been right is nobody's business.
        assert right.rpartition("=")[2] not in json.dumps(answer.body), what


@pytest.mark.parametrize("seconds, status", [
    (0, 200), (-590, 200), (590, 200), (-620, 401), (620, 401), (-86_400, 401)])
def test_the_window_of_time(caller, seconds, status):
    """soketi and Reverb never look: a call that somebody saw is good for ever."""
    body = b'{"name":"e","channels":["x"],"data":"{}"}'
    target = caller.signed("POST", "/apps/1/events", body=body, auth_timestamp=str(int(time.time()) + seconds))
    assert caller.send("POST", target, body).status == status
    target = caller.signed("GET", "/apps/1/channels", auth_timestamp=str(int(time.time()) + seconds))
    assert caller.send("GET", target).status == status


def test_the_empty_bodys_md5_is_checked_where_it_is_given(caller):
    """Trap (a): the Python library sends it with GETs; Reverb refuses those."""
    empty = "d41d8cd98f00b204e9800998ecf8427e"
    assert caller.send("GET", caller.signed("GET", "/apps/1/channels", body_md5=empty)).status == 200
    assert caller.send("GET", caller.signed("GET", "/apps/1/channels", body_md5="0" * 32)).status == 401


def test_names_of_parameters_in_capitals(caller):
    target = caller.signed("GET", "/apps/1/channels", query={"Filter_By_Prefix": "nothing-such"})
    assert caller.send("GET", target).status == 200


def test_paths_signed_as_sent_or_as_meant(plain, caller):
    """Trap (c): libraries differ in what they escape."""
    channel = f"presence-a;b@c,d-{name()}"
    with Member(plain) as member:
        member.join(channel, "ada")
        meant, sent = f"/apps/1/channels/{channel}", f"/apps/1/channels/{quote(channel, safe='')}"
        for path, signed in ((meant, meant), (sent, sent), (sent, meant)):
            answer = caller.send("GET", caller.signed("GET", path, signed_path=signed))
            assert (answer.status, answer.body) == (200, {"occupied": True}), (path, signed)


def test_both_secrets_while_one_is_rotated():
    app = Application("1", "key-1", "new-secret", previousSecret="old-secret")
    with PlainHub(app) as hub:
        for secret in ("new-secret", "old-secret"):
            assert app.backend(hub, secret=secret).trigger("x", "e", {}) == {}
        with pytest.raises(pusher.errors.PusherBadAuth):
            app.backend(hub, secret="older").trigger("x", "e", {})


def test_a_call_seen_before_may_be_refused():
    body = b'{"name":"e","channels":["news"],"data":"{}"}'
    with PlainHub(api_refuseReplays=True) as hub, Caller(hub) as caller, Member(hub) as member:
        member.join("news")
        target = caller.signed("POST", "/apps/1/events", body=body)
        assert caller.send("POST", target, body).status == 200
        assert caller.send("POST", target, body).status in (401, 409)
        member.wait_for_event("e", "news")
        member.answered()
        assert len(member.heard("e")) == 1


def test_a_repeat_is_fine_unless_it_is_refused(caller):
    """Two like events of one second are what Pusher allows."""
    body = b'{"name":"e","channels":["news"],"data":"{}"}'
    target = caller.signed("POST", "/apps/1/events", body=body)
    assert [caller.send("POST", target, body).status for _ in range(2)] == [200, 200]


# Statuses.

@pytest.mark.parametrize("body", [
    b"", b"[]", b"{}", b"x", b'{"name":"e"}', b'{"name":"e","data":"{}"}', b'{"channels":["x"],"data":"{}"}',
    b'{"name":"e","channels":[],"data":"{}"}', b'{"name":"e","channels":"x","data":"{}"}',
    b'{"name":"e","channels":[1],"data":"{}"}', b'{"name":"e","channels":["x"]}',
    b'{"name":"e","channels":["x"],"data":{}}', b'{"name":"e","channels":["x"],"data":1}',
    b'{"name":"","channels":["x"],"data":"{}"}', b'{"name":1,"channels":["x"],"data":"{}"}',
    b'{"name":"e","channels":["a b"],"data":"{}"}', b'{"name":"e","channels":[""],"data":"{}"}',
    b'{"name":"e","channels":["x","a b"],"data":"{}"}', b'{"name":"e","channels":["x/y"],"data":"{}"}',
    b'{"name":"e","channels":["#private"],"data":"{}"}',
    b'{"name":"e","channels":["x"],"data":"{}","socket_id":"x"}',
    b'{"name":"e","channels":["x"],"data":"{}","socket_id":1}',
    b'{"name":"e","channels":["x"],"data":"{}","info":"weight"}',
    b'{"name":"e","channels":["x"],"data":"{}","info":"cache"}',
    b'{"name":"e","channels":["x"],"data":"\xff"}', b'{"name":"e","channels":["x"],"data":"{}"',
    b'{"name":"' + b"n" * 201 + b'","channels":["x"],"data":"{}"}',
    b'{"name":"e","channels":["' + b"c" * 201 + b'"],"data":"{}"}',
    b"[" * 5000 + b"]" * 5000,
])
def test_bodies_that_are_none(caller, body):
    answer = caller.call("POST", "/events", body).refuses(400)
    assert len(json.dumps(answer.body)) < 500
    assert caller.publish(["x"]).status == 200


def test_what_is_refused_reaches_nobody(plain, caller):
    channel = name()
    with Member(plain) as member:
        member.join(channel)
        caller.publish([channel, "a b"]).refuses(400)
        caller.call("POST", "/batch_events", {"batch": [
            {"name": "e", "data": "{}", "channel": channel},
            {"name": "e", "data": "{}", "channel": "a b"}]}).refuses(400)
        caller.call("POST", "/batch_events", {"batch": [
            {"name": "e", "data": "{}", "channel": channel},
            {"name": "e", "data": "x" * 10_241, "channel": channel}]}).refuses(413)
        caller.call("POST", "/batch_events", {"batch": [
            {"name": "e", "data": "{}", "channel": channel},
            {"name": "e", "data": "{}", "channel": channel, "info": "weight"}]}).refuses(400)
        member.answered()
        assert not member.events(channel)


@pytest.mark.parametrize("batch", [{}, "x", None, 1, ["x"], [{}], [[]], [{"name": "e", "data": "{}"}],
                                   [{"name": "e", "data": {}, "channel": "x"}],
                                   [{"name": "e", "data": "{}", "channels": ["x"]}]])
def test_batches_that_are_none(caller, batch):
    caller.call("POST", "/batch_events", {"batch": batch}).refuses(400)


def test_bounds_and_one_past_them(plain, caller):
    assert caller.publish([name() for _ in range(100)]).status == 200
    caller.publish([name() for _ in range(101)]).refuses(400, "100")
    events = [{"name": "e", "data": "{}", "channel": name()} for _ in range(11)]
    assert caller.call("POST", "/batch_events", {"batch": events[:10]}).status == 200
    caller.call("POST", "/batch_events", {"batch": events}).refuses(400, "10")
    assert caller.publish(["c" * 200], "n" * 200).status == 200
    assert caller.publish(["x"], data="x" * 10_240).status == 200
    words = "The data content of this event exceeds the allowed maximum (10240 bytes)"
    caller.publish(["x"], data="x" * 10_241).refuses(413, words)
    # Bytes, not letters.
    assert caller.publish(["x"], data="ä" * 5_120).status == 200
    caller.publish(["x"], data="ä" * 5_121).refuses(413)
    # Ten events of the largest size are one allowed batch, escaped as JSON may have to.
    large = [{"name": "e", "data": "\"" * 10_240, "channel": name()} for _ in range(10)]
    assert caller.call("POST", "/batch_events", {"batch": large}).status == 200


def test_too_large_a_body_ends_at_its_head(plain, caller):
    with Wire(plain) as wire:
        wire.send("POST /apps/1/events?auth_key=x HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000000000\r\n\r\n")
        assert wire.response().status == 413


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/channels/x?info=user_count", 400), ("GET", "/channels/presence-x?info=cache", 400),
    ("GET", "/channels/x?info=cache", 400), ("GET", "/channels/x?info=weight", 400),
    ("GET", "/channels?info=user_count", 400), ("GET", "/channels?info=user_count&filter_by_prefix=private-", 400),
    ("GET", "/channels/x/users", 400), ("GET", "/channels/private-x/users", 400), ("GET", "/channels/a%20b", 400),
    ("GET", "/channels/x/nothing", 404), ("GET", "/nothing", 404), ("DELETE", "/channels/x", 405),
    ("PUT", "/events", 405),
    ("GET", "/events", 405), ("POST", "/channels/x/users", 405), ("POST", "/channels/x/events", 400),
    ("POST", "/users//terminate_connections", 404),
])
def test_statuses(caller, method, path, status):
    path, _, query = path.partition("?")
    query = dict(pair.split("=") for pair in query.split("&") if pair)
    caller.call(method, path, query=query).refuses(status)


def test_apps_that_are_none(plain, caller):
    body = b'{"name":"e","channels":["x"],"data":"{}"}'
    for app in ("99", "x", "", "1x", "01"):
        answer = caller.send("POST", caller.signed("POST", f"/apps/{app}/events", body=body), body)
        assert answer.status in (404, 400), answer
    with Caller(plain, DISABLED) as disabled:
        disabled.publish(["x"]).refuses(403)
        disabled.get("/channels").refuses(403)


def test_too_many_publishes(plain):
    with Caller(plain, SLOW) as caller:
        answers = [caller.publish(["x"]) for _ in range(40)]
        refused = [answer for answer in answers if answer.status != 200]
        assert answers[0].status == 200 and refused
        for answer in refused:
            answer.refuses(429)
            assert int(answer.fields["retry-after"]) >= 1
        # Asking is not publishing, and the other app has its own rate.
        assert caller.get("/channels").status == 200
        with Caller(plain) as other:
            assert other.publish(["x"]).status == 200
        eventually(lambda: caller.publish(["x"]).status == 200, "in time it may again")


# Idempotency-Key.

def keyed(key):
    return {"Idempotency_Key": key}


def test_a_repeat_under_its_key_is_answered_and_not_done_again(plain, caller):
    channel, key = name(), name()
    with Member(plain) as member:
        member.join(channel)
        first = caller.publish([channel], data="{}", info="subscription_count", fields=keyed(key))
        for _ in range(5):
            again = caller.publish([channel], data="{}", info="subscription_count", fields=keyed(key))
            assert (again.status, again.body) == (first.status, first.body) == (
                200, {"channels": {channel: {"subscription_count": 1}}})
        caller.publish([channel], event="other")
        member.wait_for_event("other", channel)
        assert [frame.event for frame in member.events(channel)] == ["e", "other"]
        # Another body under the key is a mistake of the caller's.
        caller.publish([channel], data="[]", fields=keyed(key)).refuses(422)
        batch = {"batch": [{"name": "b", "data": "{}", "channel": channel}]}
        for _ in range(3):
            assert caller.call("POST", "/batch_events", batch, fields=keyed(key + "b")).status == 200
        member.eventually_heard("b", channel, 1)
        member.answered()
        assert len(member.heard("b", channel)) == 1


def test_keys_are_an_apps_own(plain, caller):
    key = name()
    assert caller.publish(["x"], fields=keyed(key)).status == 200
    with Caller(plain, SLOW) as other:
        assert eventually(lambda: (answer := other.publish(["y"], fields=keyed(key))).status != 429 and answer,
                          "its turn").status == 200


def test_many_repeats_at_once_publish_once(plain):
    channel, key = name(), name()
    with Member(plain) as member, concurrent.futures.ThreadPoolExecutor(12) as pool:
        member.join(channel)
        together = threading.Barrier(12)

        def publish(_):
            with Caller(plain) as own:
                together.wait()
                return own.publish([channel], fields=keyed(key)).status

        statuses = list(pool.map(publish, range(12)))
        # One that comes while the first is under way may be told so.
        assert set(statuses) <= {200, 409} and 200 in statuses
        member.wait_for_event("e", channel)
        member.answered()
        assert len(member.heard("e", channel)) == 1


def test_a_refused_call_may_be_mended_under_its_key(plain, caller):
    key = name()
    caller.publish(["a b"], fields=keyed(key)).refuses(400)
    assert caller.publish(["x"], fields=keyed(key)).status in (200, 422)


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
