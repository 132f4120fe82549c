"""Messages that reach users wherever they are signed in: `#server-to-user-…`, and the end of their connections."""

import hashlib
import hmac
import json
import random
import threading

import pytest

from plain import APP, HUBS, Application, Caller, Member, PlainHub, members, occupied
from waiting import eventually


@pytest.fixture(scope="module", params=HUBS)
def plain(request):
    with PlainHub(APP, Application("2", "key-2", "secret-2"), presence_leaveGrace="300ms", **request.param) as hub:
        yield hub


@pytest.fixture
def user():
    return f"user-{random.SystemRandom().randrange(1 << 40):x}"


def own(user):
    return f"#server-to-user-{user}"


def signed_in(member, user):
    """Signs in as pusher-js does: it asks for the channel right after the answer."""
    member.sign_in_as(user)
    member.join(own(user))
    return member


def test_signin_is_echoed_byte_for_byte(plain, user):
    with Member(plain) as member:
        data = member.backend.authenticate_user(
            member.socket_id, {"id": user, "user_info": {"name": "Ädä", "n": 1.50}})
        member.send("pusher:signin", data)
        frame = member.signed_in()
        assert json.loads(frame.text) == {"event": "pusher:signin_success", "data": frame.raw_data}
        assert frame.data["user_data"] == data["user_data"]


def test_every_connection_of_the_user_and_nobody_else(plain, user):
    with members(plain, 4) as crowd, Member(plain) as other, Member(plain, plain.apps[1]) as elsewhere:
        for member in crowd:
            signed_in(member, user)
        signed_in(other, user + "x")
        signed_in(elsewhere, user)
        APP.backend(plain).send_to_user(user, "note", {"n": 1})
        for member in crowd:
            frame = member.wait_for_event("note", own(user))
            assert json.loads(frame.text) == {"event": "note", "channel": own(user), "data": '{"n": 1}'}
        for member in (*crowd, other, elsewhere):
            member.caught_up(own(user + "x" if member is other else user))
            assert len(member.heard("note")) == (1 if member in crowd else 0)


def test_only_the_signed_in_user(plain, user):
    with members(plain, 3) as (stranger, other, witness):
        stranger.subscribe(own(user))
        stranger.answered()
        other.sign_in_as(user + "x")
        other.subscribe(own(user))
        other.refused(own(user))
        # A signature of the backend's for the name is not the way.
        stranger.ask_with(own(user), '{"user_id":"' + user + '"}')
        stranger.answered()
        signed_in(witness, user)
        APP.backend(plain).send_to_user(user, "note", {})
        witness.wait_for_event("note", own(user))
        for member in (stranger, other):
            # It would have come to its loop before this does.
            member.join(f"behind-{user}")
            member.caught_up(f"behind-{user}")
            assert not member.heard("note")
            assert not any(frame.channel == own(user) and "succeeded" in frame.event for frame in member.frames)


@pytest.mark.parametrize("channel", ["#private", "#server-to-user-", "#", "#server-to-users-1"])
def test_other_reserved_names(plain, user, channel):
    with Member(plain) as member:
        member.sign_in_as(user)
        seen = member.count()
        member.subscribe(channel)
        assert member.refused(channel, start=seen).data["type"] == "InvalidChannel"
        member.answered()
        assert channel not in occupied(plain)


def test_a_session_keeps_its_user(plain, user):
    with Member(plain) as member:
        signed_in(member, user)
        seen = member.count()
        member.send("pusher:signin", member.backend.authenticate_user(member.socket_id, {"id": user + "x"}))
        member.complaint(start=seen)
        APP.backend(plain).send_to_user(user, "note", {})
        member.wait_for_event("note", own(user))


@pytest.mark.parametrize("data", ['{"id":1}', '{"id":""}', "{}", "[]", "", '{"id":null}', "x"])
def test_users_without_an_id(plain, data):
    with Member(plain) as member:
        text = f"{member.socket_id}::user::{data}"
        signature = hmac.new(APP.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        member.send("pusher:signin", {"auth": f"{APP.key}:{signature}", "user_data": data})
        member.complaint()
        member.answered()
        assert not member.heard("pusher:signin_success")


def test_terminate_ends_all_connections_of_the_user_and_no_other(plain, user):
    """Complaint 14: reverb's PR 399, where the answer is 200 and the socket stays."""
    with members(plain, 5) as crowd, members(plain, 2) as (other, guest), Member(plain, plain.apps[1]) as elsewhere:
        for member in crowd:
            signed_in(member, user)
        signed_in(other, user + "x")
        elsewhere.sign_in_as(user)
        # A member of a presence channel by that name has not signed in.
        guest.join("presence-t", user)
        assert APP.backend(plain).terminate_user_connections(user) == {}
        for member in crowd:
            assert member.closed() == 4009
        for member in (other, guest, elsewhere):
            member.answered()
            assert member.is_open
        eventually(lambda: own(user) not in occupied(plain), "nothing of them is left")


def test_terminate_says_why(plain, user):
    with Member(plain) as member:
        signed_in(member, user)
        APP.backend(plain).terminate_user_connections(user)
        member.closed()
        assert member.close_reason == "You got disconnected by the app."


def test_terminate_by_the_documented_path(plain, user):
    with Member(plain) as member, Caller(plain) as caller:
        signed_in(member, user)
        answer = caller.call("POST", f"/users/{user}/terminate_connections", {})
        assert (answer.status, answer.body) == (200, {})
        assert member.closed() == 4009


def test_terminate_who_is_not_there(plain, user):
    assert APP.backend(plain).terminate_user_connections(user) == {}


def test_terminate_ends_the_membership_too(plain, user):
    with members(plain, 2) as (watcher, member):
        watcher.join("presence-room", "watcher")
        member.sign_in_as(user)
        member.join("presence-room")
        watcher.wait_for_event("pusher_internal:member_added", "presence-room")
        APP.backend(plain).terminate_user_connections(user)
        assert watcher.wait_for_event("pusher_internal:member_removed", "presence-room").data == {"user_id": user}


def test_a_new_sign_in_is_accepted(plain, user):
    """Termination is no ban: a backend that wants one refuses to sign."""
    with Member(plain) as member:
        signed_in(member, user)
        APP.backend(plain).terminate_user_connections(user)
        assert member.closed() == 4009
    with Member(plain) as member:
        signed_in(member, user)
        APP.backend(plain).send_to_user(user, "note", {})
        member.wait_for_event("note", own(user))


def test_no_signin_slips_through(plain, user):
    """Each connection of the user ends, unless it signed in after the call."""
    backend = APP.backend(plain)
    for _ in range(15):
        with members(plain, 8) as crowd:
            start = threading.Barrier(2)

            def sign_all_in():
                start.wait()
                for member in crowd:
                    member.send("pusher:signin", member.backend.authenticate_user(member.socket_id, {"id": user}))

            signing = threading.Thread(target=sign_all_in)
            signing.start()
            start.wait()
            backend.terminate_user_connections(user)
            signing.join()
            # Now that all are signed in or ended, a second call leaves none.
            for member in crowd:
                eventually(lambda: not member.is_open or member.heard("pusher:signin_success"), "an answer")
            backend.terminate_user_connections(user)
            for member in crowd:
                assert member.closed() == 4009


def test_connections_must_be_authorized_where_the_app_says_so():
    """Complaint 3: after 4009, pusher-js never comes back. So the hub closes with a code that lets it try again."""
    app = Application(authorizationTimeout="1s")
    with PlainHub(app) as hub, members(hub, 4) as (idle, public, user, private):
        public.join("news")
        user.sign_in_as("ada")
        private.join("private-x")
        for member in (idle, public):
            code = member.closed()
            assert code == 4100 and "not authorized within timeout" in member.close_reason
        for member in (user, private):
            member.answered()
            assert member.is_open
