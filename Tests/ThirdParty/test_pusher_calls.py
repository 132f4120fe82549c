"""Calls of Pusher's HTTP API by hand: who may make them, what is refused and how, and what is done once."""

import concurrent.futures
import json
import random
import threading
import time
from urllib.parse import quote

import pusher
import pytest

from plain import HUBS, Application, Caller, Member, PlainHub
from test_pusher_api import DISABLED, SLOW, caller, name, plain  # noqa: F401 - fixtures
from waiting import eventually
from wire import Wire


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


@pytest.mark.parametrize("hubs", HUBS)
def test_a_call_seen_before_may_be_refused(hubs):
    body = b'{"name":"e","channels":["news"],"data":"{}"}'
    with PlainHub(api_refuseReplays=True, **hubs) as hub, Caller(hub) as caller, Member(hub) as member:
        member.join("news")

        def taken():
            """A call signed in the second in which the hub started is refused: it may have come before."""
            target = caller.signed("POST", "/apps/1/events", body=body)
            return target if caller.send("POST", target, body).status == 200 else None

        target = eventually(taken, "the hub's first second is over")
        # At the other hub, too.
        for _ in range(2):
            with Caller(hub) as other:
                assert other.send("POST", target, body).status == 401
        # A call that was refused for what it says may come again, and one that goes under a key is answered as before.
        bad = b'{"name":"e","channels":["a b"],"data":"{}"}'
        refused = caller.signed("POST", "/apps/1/events", body=bad)
        assert [caller.send("POST", refused, bad).status for _ in range(2)] == [400, 400]
        keyed = caller.signed("POST", "/apps/1/events", body=b'{"name":"k","channels":["news"],"data":"{}"}')
        for _ in range(3):
            with Caller(hub) as other:
                answer = other.send("POST", keyed, b'{"name":"k","channels":["news"],"data":"{}"}', Idempotency_Key="k")
            assert answer.status == 200, answer
        assert caller.call("GET", "/channels/news").status == 200
        member.wait_for_event("e", "news")
        member.caught_up("news")
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


@pytest.mark.parametrize("event", ["pusher:subscription_succeeded", "pusher_internal:member_added"])
def test_the_hubs_own_events_are_not_published(plain, caller, event):
    """No way to publish takes them: a client would take such an event for the hub's own."""
    channel, user = name(), f"u{random.SystemRandom().randrange(1 << 40):x}"
    with Member(plain) as member:
        member.join(channel)
        member.sign_in_as(user)
        start = member.count()
        caller.publish([channel], event).refuses(400, "pusher:")
        caller.publish([f"#server-to-user-{user}"], event).refuses(400, "pusher:")
        caller.call("POST", "/batch_events", {"batch": [
            {"name": "e", "data": "{}", "channel": channel}, {"name": event, "data": "{}", "channel": channel},
        ]}).refuses(400, "batch[1]", "pusher:")
        caller.call("POST", f"/channels/{channel}/events", body=b"{}", query={"name": event}).refuses(400, "pusher:")
        for other in ("pusher", "pusher-e", "client-e"):
            assert caller.publish([channel], other).status == 200
            member.wait_for_event(other, channel, start=start)
        member.answered()
        assert not [frame for frame in member.frames[start:] if frame.event in (event, "e")]


def test_bounds_and_one_past_them(plain, caller):
    assert caller.publish([name() for _ in range(100)]).status == 200
    caller.publish([name() for _ in range(101)]).refuses(400, "100")
    events = [{"name": "e", "data": "{}", "channel": name()} for _ in range(11)]
    assert caller.call("POST", "/batch_events", {"batch": events[:10]}).status == 200
    # Hosted Pusher's word and status, for which pusher-http-php's acceptance suite asks.
    caller.call("POST", "/batch_events", {"batch": events}).refuses(400, "Batch too large", "10")
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
