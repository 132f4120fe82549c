"""Order on one connection: what comes behind a credential waits for it, and a join among commits misses none."""

import itertools
import threading

from device import Device
from doses import add_dose
from names import private_stream, stream
from wire import Wire, text


def asks(event, **data):
    return text({"event": event, "data": data})


def test_nothing_overtakes_a_token_of_the_upgrade(hub, user):
    """The first messages come in the packet of the upgrade, while its token is still being verified."""
    with Wire(hub) as wire:
        wire.send(
            f"GET /app/carillon-key?protocol=7 HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Authorization: Bearer {hub.token(user)}\r\n\r\n".encode()
            + asks("pusher:subscribe", channel=stream(user + "x")) + asks("pusher:ping"))
        assert wire.response().status == 101
        told = [wire.event()["event"] for _ in range(4)]
        assert told == ["pusher:connection_established", "sync:auth_ok", "pusher:subscription_error", "pusher:pong"]


def test_nothing_overtakes_tokens_on_the_way(hub, user):
    """Two hundred at once, every second one bad, and what follows them, in pieces that fit no frame."""
    good, bad = hub.token(user), hub.token(user)[:-3] + "xxx"
    with Wire(hub) as wire:
        wire.opened()
        said = b"".join(asks("sync:auth", token=token) for token in [bad, good] * 100)
        said += asks("pusher:subscribe", channel=stream(user + "x")) + asks("pusher:ping")
        for offset in range(0, len(said), 997):
            wire.send(said[offset:offset + 997])
        told = [wire.event()["event"] for _ in range(202)]
        assert told == ["pusher:error", "sync:auth_ok"] * 100 + ["pusher:subscription_error", "pusher:pong"]


def test_peers_that_leave_while_their_token_is_verified(hub, user):
    token = hub.token(user)
    for number in range(200):
        with Wire(hub) as wire:
            if number % 2:
                wire.opened().send(asks("sync:auth", token=token) + asks("pusher:subscribe", channel=stream(user)))
            else:
                wire.send(
                    f"POST /pusher/user-auth HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {token}\r\n"
                    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 13\r\n\r\nsocket_id=1.1")
    with Wire(hub) as wire:
        wire.opened().lives()


def test_one_copy_after_any_number_of_subscribes(hub, user):
    with Device(hub, token=hub.token(user)) as device:
        device.authenticated()
        for number in range(300):
            device.subscribe(stream(user))
            if number % 2:
                device.unsubscribe(stream(user))
        device.unsubscribe(stream(user))
        device.subscribe(stream(user))
        device.subscribe(private_stream(user))
        device.subscribed(private_stream(user))
        add_dose(hub, user)
        for channel in (stream(user), private_stream(user)):
            device.wait_for_event("adherence.summary_updated", channel)
        device.answered()
        for channel in (stream(user), private_stream(user)):
            assert [frame.data["_sync"]["o"] for frame in device.events(channel)] == [1, 2]


def test_joins_among_commits(hub, user):
    """Each joiner has all that follows its acknowledgement, and nothing of what was before."""
    dose = add_dose(hub, user)
    is_over = threading.Event()

    def write():
        with hub.database() as connection:
            for number in itertools.count():
                if is_over.is_set():
                    return
                connection.execute("update care.dose_occurrence set note = %s where id = %s", [str(number), dose])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(30):
            with Device(hub, token=hub.token(user)) as device:
                device.subscribe(stream(user))
                start = device.subscribed(stream(user)).data["sync"]["offset"]
                device.wait_for(lambda frame: frame.data.get("_sync", {}).get("o", 0) >= start + 10, "ten events")
                offsets = [frame.data["_sync"]["o"] for frame in device.events(stream(user))]
                assert offsets == list(range(start + 1, start + 1 + len(offsets)))
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
