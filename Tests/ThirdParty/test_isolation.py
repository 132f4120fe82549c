"""No byte of one user reaches another, whatever their ids hold. Each has a canary, which no other user's rows hold."""

import hashlib
import hmac
import json
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request

import pytest

from device import BACKEND, Device
from hub import APP_KEY, APP_SECRET, Hub
from names import escaped, private_stream, stream
from waiting import eventually

#: Ids that look like each other's, like names, or like nothing that should be an id.
IDS = [
    "demo", "demo2", "demo.adherence", "demo.", ".demo", "demo..adherence", "Demo", "DEMO", "adherence", ".adherence",
    "a.b", "a=2Eb", "a=2eb", "a=b", "a=", "=", "==", "a.b.c", "a", "b", "ab", "a-b", "a_b", "a@b", "a,b", "a;b",
    unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "e", "ü", "u", "Ω", "\u2126", "ﬁ", "fi",
    "ß", "ss", "İ", "i", "\u0131", "K", "\u212a", "k",
    "🙂", "👩‍👧", "👩", "𝒳", "日本", "עברית", "a\u200bb", "a\u00adb", "\u202eabc", "\ufeffdemo",
    "x;y,z@w", "a b", " a", "a ", " ", "\t", "\n", "a\nb", "a\r\nb", "\x01", "\x7f", "a'b", 'a"b', "a\\b", "a\\\\b",
    "'; drop table care.dose_occurrence; --", "%s", "%00", "$1", "{}", "[]", "null", "true", "0", "00", "-1", "1e3",
    "*", "user.demo.adherence", "private-user.demo.adherence", "#server-to-user-demo", "a/b", "../a", "a?b=c&d", "a+b",
    "a:b",
    "x" * 120, "x" * 119, "x" * 119 + "y", "y" + "x" * 119, "ж" * 28, "." * 20, "=2E" * 20,
]


def canary(number):
    return f"canary-{number:04d}-tweet"


def request(hub, path, token, fields):
    body = urllib.parse.urlencode(fields).encode()
    call = urllib.request.Request(
        f"http://127.0.0.1:{hub.port}{path}", data=body, headers={"Authorization": f"Bearer {token}"})

    def answered():
        try:
            with urllib.request.urlopen(call, timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # A hub that has just begun does not know yet whose tokens are revoked.
            if error.code != 503:
                raise
            return None

    return eventually(answered, f"an answer of {path}")


def sign_in(device, user):
    """`pusher:signin`. Pusher's own library refuses ids of odd letters; a backend of another make may not."""
    try:
        device.sign_in(user)
    except ValueError:
        data = json.dumps({"id": user}, ensure_ascii=len(user) % 2 == 0)
        text = f"{device.socket_id}::user::{data}".encode()
        signature = hmac.new(APP_SECRET.encode(), text, hashlib.sha256).hexdigest()
        device.send("pusher:signin", {"auth": f"{APP_KEY}:{signature}", "user_data": data})


def test_the_list_has_no_id_twice():
    assert len({user.encode() for user in IDS}) == len(IDS)
    assert len({stream(user) for user in IDS}) == len(IDS)


def test_no_byte_of_another_user(hub):
    devices = []
    try:
        for number, user in enumerate(IDS):
            device = Device(hub)
            devices.append(device)
            for other in {IDS[number - 1], "demo" if user != "demo" else "demo2"}:
                device.subscribe(stream(other))
                device.subscribe(private_stream(other))
            device.subscribe(stream(user))
            # Every way of becoming a user in turn.
            if number % 3 == 0:
                sign_in(device, user)
            elif number % 3 == 1:
                device.authenticate(hub.token(user))
            else:
                fields = {"socket_id": device.socket_id}
                device.send("pusher:signin", request(hub, "/pusher/user-auth", hub.token(user), fields))
            device.subscribe(private_stream(user))
            device.subscribe(stream(user, "reminders"))
        for number, (device, user) in enumerate(zip(devices, IDS)):
            device.subscribed(stream(user))
            device.subscribed(private_stream(user))
            device.subscribed(stream(user, "reminders"))
            for other in {IDS[number - 1], "demo" if user != "demo" else "demo2"}:
                assert device.refused(stream(other)).data["status"] == 403
                assert device.refused(private_stream(other)).data["status"] == 403

        with hub.database(autocommit=False) as connection:
            for number, user in enumerate(IDS):
                connection.execute(
                    "insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)"
                    " values (%s, %s, %s, now())",
                    [f"dose-{canary(number)}", user, canary(number)])
            for number, user in enumerate(IDS):
                connection.execute(
                    "insert into care.reminder_rule (user_id, label, time) values (%s, %s, '08:00')",
                    [user, canary(number)])
        hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id like 'dose-canary-%'")

        for number, (device, user) in enumerate(zip(devices, IDS)):
            device.wait_for_event("reminder.created", stream(user, "reminders"))
            for name in (stream(user), private_stream(user)):
                eventually(lambda: len(device.events(name)) >= 4, f"the events of {user!r} on {name}")
                events = [frame.data for frame in device.events(name)][-4:]
                assert {event["userId"].encode() for event in events} == {user.encode()}
        # All have their last event; whatever went astray has been sent before a ping's answer.
        for number, (device, user) in enumerate(zip(devices, IDS)):
            device.answered()
            received = device.everything()
            assert canary(number) in received
            strays = [other for other in range(len(IDS)) if other != number and canary(other) in received]
            assert strays == [], f"{user!r} received what belongs to {[IDS[other] for other in strays]!r}"
            own = {stream(user), private_stream(user), stream(user, "reminders")}
            assert {frame.channel for frame in device.frames if frame.data and "_sync" in frame.data} == own
    finally:
        for device in devices:
            device.close()


def test_a_row_that_changes_hands(hub, user):
    """The old owner learns that it is gone, and nothing of what the new owner's row holds."""
    first, second = user + ".1", user + ".2"
    with Device(hub) as one, Device(hub) as two:
        for device, owner in ((one, first), (two, second)):
            device.sign_in(owner)
            device.subscribe(stream(owner))
            device.subscribed(stream(owner))
        hub.query("insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)"
                  " values (%s, %s, 'first-canary', now())", [f"dose-{user}", first])
        one.wait_for_event("occurrence.created")
        hub.query("update care.dose_occurrence set user_id = %s, product_id = 'second-canary' where id = %s",
                  [second, f"dose-{user}"])
        created = two.wait_for_event("occurrence.created").data
        assert created["occurrence"]["productId"] == "second-canary"
        cancelled = one.wait_for_event("occurrence.cancelled").data
        assert cancelled["updates"] == {"status": "cancelled", "rev": 1}
        one.answered()
        two.answered()
        assert "second-canary" not in one.everything() and second not in one.everything()
        assert "first-canary" not in two.everything() and first not in two.everything()


def test_an_identity_by_token_does_not_change_hands(hub, user):
    with Device(hub, token=hub.token(user)) as device:
        assert device.authenticated().data["userId"] == user
        device.sign_in(user + "x")
        assert "another user" in device.complaint().data["message"]
        start = device.count()
        device.authenticate(hub.token(user + "x"))
        assert "another user" in device.complaint(start).data["message"]
        device.subscribe(stream(user + "x"))
        device.refused(stream(user + "x"))
        # The same user again is no other user.
        start = device.count()
        device.sign_in(user)
        device.wait_for_event("pusher:signin_success", start=start)


@pytest.mark.parametrize("spelled", [
    "user.a=2Eb.adherence",       # a needless escape: a.b
    "user.a=2Ab.adherence-x",     # no topic
    "user.=c3=a9.adherence",      # lower-case digits
    "user.=C3=a9.adherence",
    "user.=C3.adherence",         # half a character
    "user.=C0=80.adherence",      # NUL, overlong
    "user.=C1=A1.adherence",      # a, overlong
    "user.=ED=A0=80.adherence",   # a surrogate
    "user.=F5=80=80=80.adherence",
    "user.=FF.adherence",
    "user.a=.adherence",
    "user.a=2.adherence",
    "user.a=GG.adherence",
    "user.=64emo.adherence",      # demo
    "user.demo.Adherence",
    "user.demo.adherence2",
    "user.demo.",
    "user.demo",
    "user..adherence",
    "user.adherence",
    "user.",
    "private-user.=64emo.adherence",
    "private-user..adherence",
    "private-user.demo",
])
def test_other_spellings_are_refused(hub, spelled):
    with Device(hub, token=hub.token("demo")) as device:
        device.authenticated()
        device.subscribe(spelled)
        assert device.refused(spelled).data["status"] == 400
        # Signed by the app's backend or not.
        start = device.count()
        device.subscribe_signed(spelled)
        assert device.refused(spelled, start=start).data["status"] == 400


@pytest.mark.parametrize("name", [
    "user.a b.adherence", "user.é.adherence", "user.a\u0000b.adherence", "user.a:b.adherence", "user.a/b.adherence",
    "user.a%2Eb.adherence", "user.a'b.adherence", 'user."a".adherence', "user.a\nb.adherence", "user.🙂.adherence",
    "", " ", "user.demo.adherence ", "user.demo.adherence\u0000", "user.demo.adherence\n", "x" * 201,
    "user." + "x" * 200 + ".adherence",
])
def test_names_that_are_none(hub, name):
    with Device(hub, token=hub.token("demo")) as device:
        device.authenticated()
        device.subscribe(name)
        device.answered()
        answers = [frame.event for frame in device.frames if "subscription" in frame.event or "error" in frame.event]
        assert answers and "pusher_internal:subscription_succeeded" not in answers


@pytest.mark.parametrize("name", ["USER.demo.adherence", "user-demo.adherence", "private-userdemo.adherence"])
def test_names_like_a_users_are_ordinary(hub, name):
    """Nothing of the user comes to a channel whose name only resembles the user's."""
    with Device(hub) as device, Device(hub, token=hub.token("demo")) as owner:
        device.subscribe_signed(name) if name.startswith("private-") else device.subscribe(name)
        assert device.subscribed(name).data == {}
        owner.subscribe(stream("demo"))
        owner.subscribed(stream("demo"))
        hub.query("update care.dose_occurrence set note = %s where user_id = 'demo'", [name])
        owner.wait_for_event("adherence.summary_updated")
        device.answered()
        assert device.events(name) == []


@pytest.mark.parametrize("stranger", ["demo2", "demo.", "Demo", "demo.adherence", "d", "demo\u200b"])
def test_the_auth_endpoint_signs_for_its_user_alone(hub, stranger):
    with Device(hub) as device:
        for name in (private_stream("demo"), stream("demo"), "private-news", "presence-news"):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                request(hub, "/pusher/auth", hub.token(stranger), {"socket_id": device.socket_id, "channel_name": name})
            assert refusal.value.code == 403


def test_what_the_auth_endpoint_signed_ends_with_its_user(user):
    """Signed before the revocation and used after it: refused, and so is whatever can be made of it."""
    name = private_stream(user)
    # One loop: when it has closed one connection, it knows of the revocation for the other.
    with Hub("--loops", "1") as hub, Device(hub) as late, Device(hub) as device:
        def signature(client):
            fields = {"socket_id": client.socket_id, "channel_name": name}
            return request(hub, "/pusher/auth", hub.token(user, iat=int(time.time()) - 10), fields)["auth"]

        kept = signature(late)
        device.subscribe(name, auth=signature(device))
        device.subscribed(name)
        hub.query("select sync.revoke(%s)", [user])
        assert device.closed() == 4110
        key, code, issued, expires = kept.split(":")
        bare = f"{key}:{code}"
        for fields in ({"auth": kept}, {"auth": bare}, {"auth": bare, "channel_data": f":token::{issued}:{expires}"},
                       {"auth": f"{bare}:{int(issued) + 20}:{expires}"}):
            start = late.count()
            late.subscribe(name, **fields)
            assert late.refused(name, start=start).data["status"] == 401


def test_signatures_do_not_pass_for_each_other(hub, user):
    """A channel's signature is no signin, and a socket id with a colon in it makes no other text to sign."""
    with Device(hub) as device:
        channel = private_stream(user)
        signature = BACKEND.authenticate(channel, device.socket_id)["auth"]
        device.send("pusher:signin", {"auth": signature, "user_data": json.dumps({"id": user})})
        assert "signature" in device.complaint().data["message"]
        # `socket_id::user::user_data` must not be had as the signature of a channel called `:user::{...}`.
        start = device.count()
        user_signature = BACKEND.authenticate_user(device.socket_id, {"id": user})
        device.subscribe("private-x", auth=user_signature["auth"], channel_data=user_signature["user_data"])
        device.refused("private-x", start=start)
        device.subscribe(private_stream(user + "x"), auth=signature)
        device.refused(private_stream(user + "x"))
        # And the bare form of the name takes no channel signature: it stays parked until there is an identity.
        device.subscribe(stream(user), auth=BACKEND.authenticate("private-" + stream(user), device.socket_id)["auth"])
        device.answered()
        assert not [frame for frame in device.frames if frame.channel == stream(user)]


def test_a_zero_byte_ends_no_id(hub):
    """PostgreSQL's texts hold none, and C ends them there: `demo` and more is not `demo`."""
    with Device(hub) as device, Device(hub, token=hub.token("demo")) as owner:
        device.authenticate(hub.token("demo\0x"))
        assert "NUL" in device.complaint().data["message"]
        for name in (stream("demo\0x"), private_stream("demo\0x"), stream("demo"), private_stream("demo")):
            device.subscribe(name)
        owner.subscribe(stream("demo"))
        owner.subscribed(stream("demo"))
        hub.query("update care.dose_occurrence set taken_at = clock_timestamp() where user_id = 'demo'")
        owner.wait_for_event("occurrence.updated")
        device.answered()
        assert not [frame for frame in device.frames if frame.data and "_sync" in frame.data]


def test_a_name_as_long_as_allowed(hub):
    longest = "x" * 128
    assert len(private_stream(longest)) <= 200 and escaped(longest) == longest
    with Device(hub, token=hub.token(longest)) as device:
        device.authenticated()
        device.subscribe(private_stream(longest))
        device.subscribed(private_stream(longest))
    with Device(hub) as device:
        device.authenticate(hub.token(longest + "x"))
        assert "128" in device.complaint().data["message"]
