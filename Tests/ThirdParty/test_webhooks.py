"""Webhooks, at a real HTTP server: what an app's backend is told, signed as Pusher's own library wants it."""

import collections
import contextlib
import json
import re
import threading
import time
import urllib.request

from certificates import Certificate
from pages import PUSHER, code
from plain import EVERYTHING, Application, Member, PlainHub, members
from receiver import Receiver
from waiting import eventually

ALL = ["channel_existence", "presence", "client_events", "cache_channels", "subscription_count"]
FIRST = Application(**EVERYTHING)


@contextlib.contextmanager
def hooked(events=ALL, receivers=1, answer=lambda hook: 200, hook=None, **settings):
    """A hub whose app has a webhook at each receiver, and these."""
    with contextlib.ExitStack() as stack:
        taking = [stack.enter_context(Receiver(FIRST, answer=answer)) for _ in range(receivers)]
        app = Application(**EVERYTHING, webhooks=[
            {"url": receiver.url(), "events": events, **(hook or {})} for receiver in taking])
        settings = {"webhooks_allowPrivate": True, "presence_leaveGrace": "300ms", **settings}
        hub = stack.enter_context(PlainHub(app, **settings))
        yield (hub, *taking)


def test_every_kind_of_event():
    with hooked() as (hub, receiver):
        with members(hub, 2) as (ada, bob):
            ada.join("presence-room", "ada")
            receiver.told({"name": "channel_occupied", "channel": "presence-room"})
            receiver.told({"name": "member_added", "channel": "presence-room", "user_id": "ada"})
            bob.join("presence-room", "bob")
            receiver.told({"name": "member_added", "channel": "presence-room", "user_id": "bob"})
            ada.trigger("presence-room", "client-hello", {"n": 1})
            text = bob.wait_for_event("client-hello").raw_data
            receiver.told({"name": "client_event", "channel": "presence-room", "event": "client-hello", "data": text,
                           "socket_id": ada.socket_id, "user_id": "ada"})
            ada.join("private-room")
            bob.join("private-room")
            receiver.told({"name": "subscription_count", "channel": "private-room", "subscription_count": 2})
            bob.trigger("private-room", "client-hello", "words")
            receiver.told({"name": "client_event", "channel": "private-room", "event": "client-hello", "data": "words",
                           "socket_id": bob.socket_id})
            ada.join("cache-state")
            receiver.told({"name": "cache_miss", "channel": "cache-state"})
            bob.unsubscribe("presence-room")
            receiver.told({"name": "member_removed", "channel": "presence-room", "user_id": "bob"})
        receiver.told({"name": "member_removed", "channel": "presence-room", "user_id": "ada"})
        for channel in ("presence-room", "private-room", "cache-state"):
            receiver.told({"name": "channel_vacated", "channel": channel})
        # The page for backends shows each of them, with these members.
        sample, = code(PUSHER, "## Webhooks at your backend", "json")
        shown = {event["name"]: set(event) for event in json.loads(sample)["events"]}
        sent = collections.defaultdict(set)
        for event in receiver.events():
            sent[event["name"]] |= set(event)
        assert shown == sent


def test_the_body_is_what_pusher_documents():
    with hooked() as (hub, receiver), Member(hub) as member:
        member.join("news")
        receiver.told({"name": "channel_occupied", "channel": "news"})
        hook = receiver.hooks[0]
        body = json.loads(hook.body)
        assert set(body) == {"time_ms", "events"} and isinstance(body["time_ms"], int)
        assert hook.path == "/hooks" and hook.fields["x-pusher-key"] == FIRST.key
        assert all(len(json.loads(hook.body)["events"]) == 1 for hook in receiver.hooks)


def test_each_endpoint_gets_its_kinds_alone():
    """soketi signs and sends what it had filtered out."""
    with Receiver(FIRST) as rooms, Receiver(FIRST) as presence:
        app = Application(**EVERYTHING, webhooks=[
            {"url": rooms.url("/rooms"), "events": ["channel_existence"], "headers": {"X-Team": "blue"}},
            {"url": presence.url("/presence"), "events": ["presence"]}])
        with PlainHub(app, webhooks_allowPrivate=True, presence_leaveGrace="300ms") as hub:
            with Member(hub) as member:
                member.join("presence-room", "ada")
                member.join("private-room")
            rooms.told({"name": "channel_vacated", "channel": "presence-room"})
            presence.told({"name": "member_removed", "channel": "presence-room", "user_id": "ada"})
            assert {event["name"] for event in rooms.events()} == {"channel_occupied", "channel_vacated"}
            assert {event["name"] for event in presence.events()} == {"member_added", "member_removed"}
            assert all(hook.fields["x-team"] == "blue" for hook in rooms.hooks)
            assert not any("x-team" in hook.fields for hook in presence.hooks)


def test_a_return_within_the_grace_is_no_absence():
    """The backend hears of no absence, however the connections ended. Members hear of a clean close at once."""
    with hooked(["channel_existence", "presence"], presence_leaveGrace="3s") as (hub, receiver):
        for turn in range(6):
            with Member(hub) as member:
                member.join("presence-room", "ada")
                if turn % 2:
                    member.drop()
        receiver.eventually(lambda events: any(event["name"] == "channel_vacated" for event in events), "it is vacated")
        assert sorted(event["name"] for event in receiver.events()) == [
            "channel_occupied", "channel_vacated", "member_added", "member_removed"]


def test_order_and_number_are_right_under_churn():
    """For one channel, occupied and vacated alternate, however fast clients join and leave."""
    kinds = ["channel_existence", "presence"]
    with hooked(kinds, presence_leaveGrace="50ms") as (hub, receiver), members(hub, 6) as crowd:
        for turn in range(40):
            for number, member in enumerate(crowd):
                if (turn + number) % 3:
                    member.ask_for("presence-room", f"user-{number % 3}")
                else:
                    member.unsubscribe("presence-room")
        for member in crowd:
            member.answered()
            member.unsubscribe("presence-room")
            member.answered()

        def settled(events):
            return events and events[-1]["name"] in ("channel_vacated", "member_removed") and balance(events) == 0

        def balance(events):
            return sum({"channel_occupied": 1, "channel_vacated": -1}.get(event["name"], 0) for event in events)

        receiver.eventually(settled, "all have left")
        with Member(hub) as member:
            member.join("presence-end", "end")
            receiver.told({"name": "channel_occupied", "channel": "presence-end"})
        events = [event for event in receiver.events() if event["channel"] == "presence-room"]
        existence = [event["name"] for event in events if event["name"].startswith("channel")]
        assert existence == ["channel_occupied", "channel_vacated"] * (len(existence) // 2)
        for user in range(3):
            own = [event["name"] for event in events if event.get("user_id") == f"user-{user}"]
            assert own == ["member_added", "member_removed"] * (len(own) // 2)


def test_batches():
    with hooked(hook={"batch": True}) as (hub, receiver), Member(hub) as member:
        for number in range(80):
            member.subscribe(f"room-{number}")
        receiver.eventually(
            lambda events: sum(event["name"] == "channel_occupied" for event in events) == 80, "all rooms")
        occupied = [event["channel"] for event in receiver.events("channel_occupied")]
        assert sorted(occupied) == sorted(f"room-{number}" for number in range(80))
        assert len(receiver.hooks) < 160


def test_refused_webhooks_are_sent_again_with_the_time_and_signature_of_then():
    """soketi never tries again; and receivers refuse a `time_ms` that is old."""
    refusals = iter([500, 503, 404, 302])

    def answer(hook):
        return next(refusals, 200)

    with hooked(["channel_existence"], answer=answer) as (hub, receiver), Member(hub) as member:
        member.join("news")
        eventually(lambda: len(receiver.hooks) >= 5, "the fifth attempt", 60)
        told = [hook.validated(FIRST) for hook in receiver.hooks]
        assert all(told), "each attempt is signed"
        assert [each["events"] for each in told] == [[{"name": "channel_occupied", "channel": "news"}]] * 5
        assert all(hook.path == "/hooks" for hook in receiver.hooks), "no redirect is followed"
        times = [each["time_ms"] for each in told]
        assert times == sorted(set(times))
        pauses = [later.at - earlier.at for earlier, later in zip(receiver.hooks, receiver.hooks[1:])]
        assert pauses[-1] > pauses[0], pauses


def test_an_endpoint_that_is_down_holds_up_no_other():
    with Receiver(FIRST) as good:
        app = Application(**EVERYTHING, webhooks=[
            {"url": "http://127.0.0.1:1/nobody", "events": ALL}, {"url": good.url(), "events": ALL}])
        with PlainHub(app, webhooks_allowPrivate=True) as hub, Member(hub) as member:
            for number in range(20):
                member.join(f"room-{number}")
            good.told({"name": "channel_occupied", "channel": "room-19"})
            member.answered()


def test_strangers_on_public_channels_delay_no_presence():
    """A receiver that answers when it is let, and one client without a signature that comes to hundreds of channels and
    goes."""
    allowed = threading.Semaphore(0)

    def answer(hook):
        allowed.acquire()
        return 200

    kinds = ["channel_existence", "presence"]
    with hooked(kinds, answer=answer, presence_leaveGrace="100ms") as (hub, receiver), \
            members(hub, 2) as (stranger, ada):
        for number in range(400):
            stranger.subscribe(f"news-{number}")
        stranger.answered()
        ada.join("presence-room", "ada")
        # All but a tenth of the news is behind it.
        allowed.release(40)
        receiver.told({"name": "member_added", "channel": "presence-room", "user_id": "ada"})
        for number in range(400):
            stranger.unsubscribe(f"news-{number}")
        for number in range(5):
            ada.ask_for(f"presence-room-{number}", "ada")
        allowed.release(1000)
        for number in range(5):
            receiver.told({"name": "member_added", "channel": f"presence-room-{number}", "user_id": "ada"})
        existence = [event for event in receiver.events() if event["channel"] == "presence-room"]
        assert [event["name"] for event in existence] == ["channel_occupied", "member_added"]
        receiver.eventually(lambda events: waiting(hub) == 0, "all is told")
        told = {}
        for event in receiver.events("channel_occupied", "channel_vacated"):
            before = told.get(event["channel"], "channel_vacated")
            assert before != event["name"], event
            told[event["channel"]] = event["name"]
        assert {channel for channel, name in told.items() if name == "channel_occupied"} == {
            "presence-room", *(f"presence-room-{number}" for number in range(5))}


def waiting(hub):
    text = urllib.request.urlopen(f"{hub.operations}/metrics").read().decode()
    return float(re.search(r"^carillon_webhook_events_waiting (\S+)$", text, re.M)[1])


def test_what_is_new_is_told_at_once_when_the_receiver_is_back():
    is_back = threading.Event()
    with hooked(["channel_existence"], answer=lambda hook: 200 if is_back.is_set() else 503) as (hub, receiver), \
            Member(hub) as member:
        for number in range(100):
            member.subscribe(f"old-{number}")
        member.answered()
        # Each has been refused, and repeated ones are paused for ever longer.
        eventually(lambda: len(receiver.hooks) >= 102, "it was refused", 60)
        refused = len(receiver.hooks)
        is_back.set()
        began = time.monotonic()
        member.subscribe("new")

        def index():
            return next((index for index, hook in enumerate(receiver.hooks[refused:]) if b'"new"' in hook.body), None)

        assert eventually(lambda: index() is not None and [index()], "the new one")[0] < 60

        def taken():
            bodies = b"".join(hook.body for hook in receiver.hooks[refused:])
            return all(f'"old-{number}"'.encode() in bodies for number in range(100))

        eventually(taken, "all that was refused")
        assert time.monotonic() - began < 8


def test_no_private_address_unless_it_is_allowed():
    """The address that is connected to counts, whatever name it had."""
    with Receiver(FIRST) as receiver:
        urls = [receiver.url(), receiver.url(host="localhost"), f"http://[::ffff:127.0.0.1]:{receiver.port}/",
                f"http://0.0.0.0:{receiver.port}/", f"http://2130706433:{receiver.port}/"]
        app = Application(**EVERYTHING, webhooks=[{"url": url, "events": ["channel_existence"]} for url in urls])
        with PlainHub(app) as hub, Member(hub) as member:
            member.join("news")

            def counted():
                text = urllib.request.urlopen(f"{hub.operations}/metrics").read().decode()
                return {name: float(value) for name, value in re.findall(r"^carillon_(webhook_\S+) (\S+)$", text, re.M)}

            def each_is_refused():
                """The counters, once each URL had its first request. There is one event for each."""
                found = counted()
                firsts = found['webhook_requests_total{result="address"}'] - found["webhook_retries_total"]
                return found if firsts == len(urls) else None

            found = eventually(each_is_refused, "all are refused for their address")
            results = {name: value for name, value in found.items() if name.startswith("webhook_requests_total")}
            assert results.pop('webhook_requests_total{result="address"}') >= len(urls)
            assert results and not any(results.values()), results
            assert found["webhook_events_waiting"] == len(urls) and not receiver.hooks


def test_tls_is_verified(tmp_path):
    good, bad = Certificate(tmp_path, "good"), Certificate(tmp_path, "bad")
    with Receiver(FIRST, good) as trusted, Receiver(FIRST, bad) as stranger:
        app = Application(**EVERYTHING, webhooks=[
            {"url": receiver.url(host="localhost"), "events": ALL} for receiver in (stranger, trusted)])
        settings = {"webhooks_allowPrivate": True, "webhooks_caFile": str(good.certificate)}
        with PlainHub(app, **settings) as hub, Member(hub) as member:
            for number in range(5):
                member.join(f"room-{number}")
            trusted.told({"name": "channel_occupied", "channel": "room-4"})
            assert not stranger.hooks


def test_what_is_queued_at_the_end_is_sent():
    with Receiver(FIRST) as receiver:
        app = Application(**EVERYTHING, webhooks=[{"url": receiver.url(), "events": ["channel_existence"]}])
        with PlainHub(app, webhooks_allowPrivate=True) as hub:
            with Member(hub) as member:
                for number in range(30):
                    member.ask_for(f"room-{number}")
                member.answered()
                assert hub.program.interrupt() == 0
        assert len(receiver.events("channel_occupied")) == 30


def test_nothing_of_them_is_logged():
    """Health data is in names, ids and payloads."""
    with hooked(answer=lambda hook: 500) as (hub, receiver), members(hub, 2) as (ada, bob):
        ada.join("presence-quite-secret", "user-quite-secret")
        bob.join("presence-quite-secret", "bob")
        ada.trigger("presence-quite-secret", "client-e", {"dose": "quite-secret"})
        eventually(lambda: len(receiver.hooks) >= 3, "it was refused")
        assert "quite-secret" not in hub.program.err.text()
        assert "quite-secret" not in urllib.request.urlopen(f"{hub.operations}/metrics").read().decode()


def test_signed_by_the_old_secret_while_one_is_rotated():
    """Until the old one is left out, for receivers that do not know the new one yet."""
    app = Application("1", "key-1", "new-secret", previousSecret="old-secret", **EVERYTHING)
    with Receiver(Application("1", "key-1", "old-secret")) as receiver:
        app.members["webhooks"] = [{"url": receiver.url(), "events": ALL}]
        with PlainHub(app, webhooks_allowPrivate=True) as hub, Member(hub) as member:
            member.join("news")
            receiver.told({"name": "channel_occupied", "channel": "news"})
