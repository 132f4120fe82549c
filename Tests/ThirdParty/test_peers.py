"""Peers that ask too much, answer too little or do not read: each is told or closed, and the hub goes on as it was."""

import itertools
import time

import pytest

import wire
from device import Device
from names import private_stream, stream
from waiting import PATIENCE
from wire import CLOSE, PING, PONG, TEXT, Wire, frame, text


def test_channels_beyond_the_limit(hub):
    with Device(hub) as device:
        for number in range(1_001):
            device.subscribe(f"news-{number}")
        device.subscribed("news-999")
        assert device.refused("news-1000").data["status"] == 403
        device.unsubscribe("news-0")
        start = device.count()
        device.subscribe("news-1000")
        device.subscribed("news-1000", start=start)


def test_parked_subscribes(hub, user):
    """Subscribes wait for the identity, up to their bound, and are answered in their order."""
    others = [f"{user}{number}" for number in range(9)]
    names = [form(other) for other in others + [user] for form in (stream, private_stream)]
    assert len(names) == 20
    with Device(hub) as device:
        for name in names:
            device.subscribe(name)
            device.subscribe(name)
        device.subscribe(stream("one-more"))
        assert device.refused(stream("one-more")).data["status"] == 403
        device.answered()
        assert not [frame for frame in device.frames if frame.channel in names]
        device.unsubscribe(names[0])
        device.sign_in(user)
        device.subscribed(private_stream(user))
        device.answered()
        refused = [frame.channel for frame in device.frames
                   if frame.event == "pusher:subscription_error" and frame.channel in names]
        assert refused == names[1:-2]


def test_a_half_open_peer(strict):
    """A peer says nothing and answers nothing: the hub finds out, though it goes on sending events."""
    statement = "update care.dose_occurrence set note = %s where id = 'half-open'"
    strict.query("insert into care.dose_occurrence (id, user_id, product_id, scheduled_at) values"
                 " ('half-open', 'half-open', 'x', now())")
    with Wire(strict) as peer, strict.database() as database:
        peer.opened(Authorization=f"Bearer {strict.token('half-open')}")
        assert peer.event()["event"] == "sync:auth_ok"
        peer.send(text({"event": "pusher:subscribe", "data": {"channel": stream("half-open")}}))
        seen = []
        for number in itertools.count():
            database.execute(statement, [f"note {number}"])
            opcode, payload = peer.frame()
            seen.append(opcode)
            # All of an update's events: what is left unread would end it for another reason.
            while opcode != CLOSE and peer.has_more():
                opcode, payload = peer.frame()
                seen.append(opcode)
            if opcode == CLOSE:
                break
        assert payload[:2] == (4201).to_bytes(2, "big")
        assert PING in seen and seen.count(TEXT) > 3


def test_a_quiet_peer(strict):
    """A peer that answers pings stays, with either way of answering."""
    with Wire(strict) as peer:
        peer.opened()
        for answer in (frame(PONG, b""), text({"event": "pusher:pong", "data": {}}), b""):
            opcode, _ = peer.frame()
            assert opcode == PING
            peer.send(answer)
        assert peer.close_code() == 4201


def test_a_peer_that_does_not_read(strict):
    """Its answers pile up to the limit; then it is let go, with the hub's memory as before."""
    before = wire.resident(strict.pid)
    ping = frame(PING, b"x" * 125) * 100
    begun = time.monotonic()
    with Wire(strict, receive_buffer=4_096) as peer, pytest.raises(ConnectionError):
        peer.opened()
        while wire.within(PATIENCE, begun):
            peer.send(ping)
    with Device(strict) as device:
        device.answered()
    assert wire.resident(strict.pid) - before < 8_192


def test_a_bulk_commit_is_no_slow_client(hub, user):
    """One transaction brings more than the queue of a slow client may hold. This client reads, and stays."""
    rows = 3_000
    with Device(hub, token=hub.token(user)) as device:
        names = (stream(user), private_stream(user))
        for name in names:
            device.subscribe(name)
            device.subscribed(name)
        hub.query("insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)"
                  " select %s || i, %s, 'x', now() from generate_series(1, %s) i", [user, user, rows])
        for name in names:
            device.wait_for_event("adherence.summary_updated", name)
            offsets = [event.data["_sync"]["o"] for event in device.events(name)]
            assert offsets == list(range(1, rows + 2))
