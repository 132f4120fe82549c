"""Pysher, unmodified: a client of the Pusher world that knows nothing of this hub. The `pusher` package signs."""

import json

import pytest

from client import Client
from device import BACKEND
from hub import APP_SECRET, Hub
from names import private_stream, stream
from waiting import eventually


def take_first_dose(hub, user):
    """Adds a dose of that user, and marks it as taken."""
    (identity,), = hub.query(
        "insert into care.dose_occurrence (user_id, product_id, scheduled_at) values (%s, 'zinc', now()) returning id",
        [user])
    hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [identity])
    return identity


def test_public_channel(hub):
    with Client(hub) as client:
        client.subscribe("news")
        assert client.subscribed("news") == "{}"


def test_private_channel(hub):
    with Client(hub, secret=APP_SECRET) as client:
        client.subscribe("private-news")
        assert client.subscribed("private-news") == "{}"


def test_private_channel_signed_by_the_server_library(hub):
    with Client(hub) as client:
        client.subscribe("private-news", auth=BACKEND.authenticate("private-news", client.socket_id)["auth"])
        client.subscribed("private-news")


def test_private_channel_with_a_wrong_secret(hub):
    with Client(hub, secret="wrong") as client:
        client.subscribe("private-news")
        assert client.refused("private-news")["type"] == "AuthError"
        # A bad signature never costs the connection: others go on.
        client.subscribe("still-here")
        client.subscribed("still-here")


def test_signature_of_another_socket(hub):
    with Client(hub) as client:
        client.subscribe("private-news", auth=BACKEND.authenticate("private-news", "1.1")["auth"])
        assert client.refused("private-news")["status"] == 401


def test_user_channel_with_a_channel_signature(hub, user):
    name = private_stream(user)
    with Client(hub, secret=APP_SECRET) as client:
        client.subscribe(name, "occurrence.created", "occurrence.updated", "adherence.summary_updated")
        assert json.loads(client.subscribed(name))["sync"]["offset"] == 0
        identity = take_first_dose(hub, user)
        updated = json.loads(client.wait_for(name, "occurrence.updated"))
        assert updated["occurrenceId"] == identity
        assert updated["updates"]["status"] == "taken"
        eventually(lambda: len(client.events(name)) == 4, "four events")
        assert [event["_sync"]["o"] for _, event in client.events(name)] == [1, 2, 3, 4]
        assert client.events(name)[-1][1]["summary"]["takenCount"] == 1


def test_user_channel_with_the_hubs_own_auth_endpoint(hub, user):
    name = private_stream(user)
    options = {
        "auth_endpoint": f"http://127.0.0.1:{hub.port}/pusher/auth",
        "auth_endpoint_headers": {"Authorization": f"Bearer {hub.token(user)}"},
    }
    with Client(hub, **options) as client:
        client.subscribe(name, "occurrence.updated")
        client.subscribed(name)
        take_first_dose(hub, user)
        assert json.loads(client.wait_for(name, "occurrence.updated"))["userId"] == user
        # The endpoint signs for its user's own channels alone.
        with pytest.raises(AssertionError, match="Failed to get auth token"):
            client.subscribe(private_stream(user + "x"))


def test_user_channel_with_a_wrong_signature(hub, user):
    name = private_stream(user)
    with Client(hub, secret="wrong") as client:
        client.subscribe(name)
        assert client.refused(name)["status"] == 401


def test_signin_answers_parked_subscribes(hub, user):
    with Client(hub) as client:
        client.subscribe(stream(user), "occurrence.updated")
        client.subscribe(stream(user + "x"), "occurrence.updated")
        data = BACKEND.authenticate_user(client.socket_id, {"id": user, "user_info": {"name": "Ada"}})
        client.send("pusher:signin", data)
        success = json.loads(client.wait_for(None, "pusher:signin_success"))
        assert json.loads(success["user_data"]) == {"id": user, "user_info": {"name": "Ada"}}
        client.subscribed(stream(user))
        client.refused(stream(user + "x"))
        take_first_dose(hub, user)
        take_first_dose(hub, user + "x")
        assert json.loads(client.wait_for(stream(user), "occurrence.updated"))["userId"] == user


def test_signin_with_a_wrong_signature(hub, user):
    with Client(hub) as client:
        data = BACKEND.authenticate_user("1.1", {"id": user})
        client.send("pusher:signin", data)
        error = client.wait_for(None, "pusher:error")
        assert error["code"] is None and "signature" in error["message"]
        client.subscribe("still-here")
        client.subscribed("still-here")


def test_every_device_of_the_user_and_no_other(hub, user):
    other = user + "2"
    with Client(hub) as first, Client(hub) as second, Client(hub) as stranger:
        for client, its_user in ((first, user), (second, user), (stranger, other)):
            client.sign_in(its_user)
            client.subscribe(stream(its_user), "occurrence.updated", "adherence.summary_updated")
            client.subscribed(stream(its_user))
        stranger.subscribe(stream(user), "occurrence.updated", "adherence.summary_updated")
        identity = take_first_dose(hub, user)
        for client in (first, second):
            eventually(lambda: len(client.events(stream(user))) == 3, "an update and two summaries")
            (_, created), (name, updated), (_, summary) = client.events(stream(user))
            assert (name, updated["occurrenceId"]) == ("occurrence.updated", identity)
            assert summary["_sync"]["o"] == updated["_sync"]["o"] + 1 == created["_sync"]["o"] + 2
        stranger.refused(stream(user))
        stranger.answered()
        assert not stranger.events(stream(user)) and not stranger.events(stream(other))


def test_a_rolled_back_change_reaches_nobody_and_no_note_travels(hub, user):
    identity = take_first_dose(hub, user)
    with Client(hub) as client:
        client.sign_in(user)
        client.subscribe(stream(user), "occurrence.updated")
        client.subscribed(stream(user))
        with hub.database(autocommit=False) as connection:
            connection.execute("update care.dose_occurrence set status = 'skipped' where id = %s", [identity])
            connection.rollback()
            connection.execute("update care.dose_occurrence set note = 'with milk' where id = %s", [identity])
        event = json.loads(client.wait_for(stream(user), "occurrence.updated"))
        assert event["updates"]["status"] == "taken" and event["updates"]["hasNote"] is True
        assert "with milk" not in repr(client.heard)


def test_a_token_makes_a_user(hub, user):
    odd = f"Zoë/{user}@example.org"
    with Client(hub) as client:
        client.send("sync:auth", {"token": hub.token(odd)})
        assert json.loads(client.wait_for(None, "sync:auth_ok"))["userId"] == odd
        client.subscribe(stream(odd))
        client.subscribed(stream(odd))


def test_unsubscribe_ends_the_events(hub, user):
    name = private_stream(user)
    with Client(hub, secret=APP_SECRET) as client:
        client.subscribe(name, "occurrence.created")
        client.subscribed(name)
        client.pusher.unsubscribe(name)
        client.answered()
        # Pysher forgets the channel, so what still came would be seen only by a new subscription: none may repeat.
        take_first_dose(hub, user)
        client.heard.clear()
        client.subscribe(name, "occurrence.created", "occurrence.updated")
        # A stream that was left a moment ago is watched still, so the answer may come before what was just written.
        start = json.loads(client.subscribed(name))["sync"]["offset"]
        take_first_dose(hub, user)

        def offsets():
            return [event["_sync"]["o"] for _, event in client.events(name)]

        eventually(lambda: 7 in offsets(), "the last change")
        assert offsets() == [offset for offset in (1, 3, 5, 7) if offset > start]


def test_ping_is_answered(hub):
    # Pysher pings the moment the socket opens, before the hub has said anything.
    with Client(hub) as client:
        client.wait_for(None, "pusher:pong")


def test_reconnects_when_the_hub_restarts(user):
    name = private_stream(user)
    with Hub() as hub, Client(hub, secret=APP_SECRET, auto_sub=True) as client:
        client.subscribe(name, "occurrence.updated")
        client.subscribed(name)
        first = client.socket_id
        hub.listen = f"127.0.0.1:{hub.port}"
        assert hub.stop() == 0
        client.heard.clear()
        hub.start()
        client.wait_for(None, "pusher:connection_established")
        eventually(lambda: client.pusher.connection.state == "connected" and client.socket_id != first,
                   "Pysher is connected again")
        # Pysher repeats the subscribe, without a signature: it waits for the user.
        client.sign_in(user)
        client.subscribed(name)
        take_first_dose(hub, user)
        client.wait_for(name, "occurrence.updated")


def test_a_topic_that_is_published_later(hub, user):
    """A made-up topic costs the hub nothing, and the client is told. Once the topic is published, nothing is
    missing."""
    topic = "later_" + "".join(character for character in user if character.isalpha()).lower()[-20:]
    name = f"user.{user}.{topic}"
    with Client(hub) as client:
        client.sign_in(user)
        client.subscribe(name, "weight.created")
        assert json.loads(client.subscribed(name))["sync"] | {"epoch": ""} == {
            "epoch": "", "offset": 0, "published": False}
        with hub.database() as database:
            database.execute(f"create table public.{topic} (id int primary key, user_id text)")
            with database.transaction():
                database.execute(f"select sync.publish_changes('public.{topic}', 'user_id', '{topic}', 'weight')")
                database.execute(f"insert into public.{topic} select n, %s from generate_series(1, 3) as n", [user])
            database.execute(f"insert into public.{topic} values (4, %s)", [user])
            eventually(lambda: len(client.events(name)) == 4, "four events")
            assert [event["_sync"]["o"] for _, event in client.events(name)] == [1, 2, 3, 4]
            with Client(hub) as later:
                later.sign_in(user)
                later.subscribe(name)
                sync = json.loads(later.subscribed(name))["sync"]
                assert sync["offset"] == 4 and "published" not in sync
            database.execute(f"select sync.unpublish_changes('public.{topic}')")
            database.execute(f"drop table public.{topic}")


def test_one_user_leaves_streams_to_the_others(user):
    """A user has a bound of made-up topics, over all connections, and it takes nothing from streams of published ones."""
    with Hub("--loops", "1") as small, Client(small) as first, Client(small) as second, Client(small) as other:
        small.wait_until_listening()
        first.sign_in(user)
        second.sign_in(user)
        made_up = [f"user.{user}.made_up_{chr(97 + number % 26)}{'x' * (number // 26)}" for number in range(1_001)]
        for name in made_up[:1_000]:
            first.subscribe(name)
        for name in made_up[:1_000]:
            first.subscribed(name)
        second.subscribe(made_up[1_000])
        assert second.refused(made_up[1_000])["type"] == "LimitReached"
        second.subscribe(stream(user))
        second.subscribed(stream(user))
        other.sign_in(user + "2")
        for name in (stream(user + "2"), f"user.{user}2.made_up"):
            other.subscribe(name)
            other.subscribed(name)


def test_a_place_named_before_another_users_sign_in_is_forbidden(hub, user):
    with Client(hub) as client:
        name = stream(user)
        client.send("sync:resume", {"v": 1, "channels": {name: {"epoch": "e", "offset": 1}}})
        client.sign_in(user + "-another")
        resumed = json.loads(client.wait_for(None, "sync:resumed"))
        assert resumed["channels"][name]["reason"] == "forbidden"
