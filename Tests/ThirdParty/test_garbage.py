"""Messages that no client should send: each gets a clear answer or close code, and the hub goes on as before."""

import contextlib
import hmac
import json
import os
import random
import threading
import time

import pytest

import tokens
import wire
from device import BACKEND, Device
from hub import APP_KEY, APP_SECRET, ORIGIN
from names import stream
from waiting import PATIENCE
from wire import BINARY, CLOSE, PING, PONG, TEXT, Wire, frame, text

#: Printed with each failure that it has a part in.
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))


# Bytes in place of HTTP.

HTTP = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "no version": (b"GET /\r\n\r\n", 400),
    "bytes in the target": (b"GET /\x00\xff HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "bare line feed": (b"GET / HTTP/1.1\nHost: h\n\n", 400),
    "folded field": (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400),
    "blank before the colon": (b"GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", 400),
    "unknown method": (b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    "long target": (b"GET /" + b"x" * 7_500 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 414),
    "endless target": (b"GET /" + b"x" * 100_000, 414),
    "long field": (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 9_000 + b"\r\n\r\n", 431),
    "many fields": (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
    "length and chunks": (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    "negative length": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n", 400),
    "body of 1 GB": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\n\r\n" + b"x" * 1_000, 413),
    "length of 30 digits": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n", 413),
    "chunk of 4 GB": (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", 413),
    "chunk without a size": (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
    "unknown coding": (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "no WebSocket": (b"GET /app/carillon-key HTTP/1.1\r\nHost: h\r\n\r\n", 426),
    "old WebSocket": (
        b"GET /app/carillon-key HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 426),
    "bad WebSocket key": (
        b"GET /app/carillon-key HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", HTTP)
def test_requests_that_are_none(hub, name):
    data, status = HTTP[name]
    with Wire(hub) as peer:
        peer.send_if_open(data)
        answer = peer.response()
        assert answer.status == status and answer.fields["connection"] == "close"
        assert peer.rest() == b""


def test_random_bytes(strict):
    dice = random.Random(SEED)
    for _ in range(50):
        with Wire(strict) as peer:
            peer.send_if_open(dice.randbytes(dice.choice([1, 10, 100, 5_000])) + b"\r\n\r\n")
            answer = peer.rest()
            assert answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5"), f"SEED={SEED}: {answer!r}"


def test_slow_requests(strict):
    """Many at once, as those who do this come: each is told that its time is over, and that soon."""
    begun = time.monotonic()
    slow = {
        "head": b"GET /app/carillon-key HTTP/1.1\r\nHost: h\r\n" + b"X-A: b\r\n" * 1_000,
        "body": b"POST /pusher/auth HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n" + b"x" * 10_000,
    }
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(Wire(strict))
        peers = [(stack.enter_context(Wire(strict)), data) for data in slow.values() for _ in range(5)]
        dripping = [threading.Thread(target=peer.drip, args=[data]) for peer, data in peers]
        for thread in dripping:
            thread.start()
        with Device(strict) as device:
            device.answered()
        for thread in dripping:
            thread.join()
        for peer, _ in peers:
            assert peer.response().status == 408
            assert peer.rest() == b""
        assert silent.rest() == b"", "who said nothing is told nothing"
    assert wire.within(PATIENCE, begun)


def test_requests_one_behind_the_other(hub):
    """Keep-alive and pipelining: three requests in one packet, answered in their order, and then a fourth."""
    token = hub.token("demo")

    def post(socket_id):
        body = f"socket_id={socket_id}"
        return (f"POST /pusher/user-auth HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}")

    with Wire(hub) as peer:
        peer.send(post("1.1") + "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" + post("1.2"))
        for socket_id in ("1.1", None, "1.2"):
            answer = peer.response()
            assert answer.status == (200 if socket_id else 404)
            if socket_id:
                data = json.loads(answer.body)
                signed = f"{socket_id}::user::{data['user_data']}".encode()
                assert json.loads(data["user_data"])["id"] == "demo"
                assert data["auth"] == f"{APP_KEY}:{hmac.new(APP_SECRET.encode(), signed, 'sha256').hexdigest()}"
        peer.send("HEAD /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
        assert peer.response(to_head=True).status == 404
        peer.send(post("1.3").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
        assert peer.response().status == 200
        assert peer.rest() == b""
    with Wire(hub) as peer:
        peer.send("GET /nothing HTTP/1.0\r\n\r\n")
        assert peer.response().status == 404 and peer.rest() == b""


def test_pages_of_other_origins(strict):
    def call(method, origin, path="/pusher/user-auth"):
        with Wire(strict) as peer:
            peer.send(f"{method} {path} HTTP/1.1\r\nHost: h\r\nOrigin: {origin}\r\nContent-Length: 0\r\n"
                      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n")
            return peer.response()

    preflight = call("OPTIONS", ORIGIN)
    assert preflight.status == 204 and preflight.fields["access-control-allow-origin"] == ORIGIN
    assert "POST" in preflight.fields["access-control-allow-methods"]
    assert "authorization" in preflight.fields["access-control-allow-headers"].lower()
    # A page must be able to read why it was refused.
    refused = call("POST", ORIGIN)
    assert refused.status == 401 and refused.fields["access-control-allow-origin"] == ORIGIN
    for method in ("OPTIONS", "POST"):
        foreign = call(method, "https://evil.example.com")
        assert foreign.status == 403 and "access-control-allow-origin" not in foreign.fields
    for origin, status in ((ORIGIN, 101), ("https://evil.example.com", 403), ("null", 403), (ORIGIN + ".evil", 403)):
        with Wire(strict) as peer:
            assert peer.upgrade(Origin=origin).status == status


# Frames that are none.

FRAMES = {
    "1 GB": (frame(TEXT, b"x" * 100, length=1 << 30), 1009),
    "2^63 - 1": (frame(TEXT, b"x", length=(1 << 63) - 1), 1009),
    "2^63": (frame(TEXT, b"x", length=1 << 63), 1002),
    "2^64 - 1": (frame(TEXT, b"x", length=(1 << 64) - 1), 1002),
    "one byte too big": (frame(TEXT, b" " * 65_537), 1009),
    "too big in fragments": (
        frame(TEXT, b" " * 40_000, final=False) + frame(0, b" " * 25_537), 1009),
    "1 GB in fragments": (
        frame(TEXT, b" " * 40_000, final=False) + frame(0, b" ", length=1 << 30), 1009),
    "endless fragments": (frame(TEXT, b"", final=False) + frame(0, b"", final=False) * 1_100, 1008),
    "unmasked": (frame(TEXT, b"{}", masked=False), 1002),
    "reserved bit": (frame(TEXT, b"{}", reserved=0x40), 1002),
    "unknown opcode": (frame(3, b"{}"), 1002),
    "unknown control": (frame(11, b""), 1002),
    "length not minimal": (frame(TEXT, b"{}", width=16), 1002),
    "length not minimal, 64": (frame(TEXT, b"{}", width=64), 1002),
    "long ping": (frame(PING, b"x" * 126), 1002),
    "fragmented ping": (frame(PING, b"x", final=False), 1002),
    "nothing to continue": (frame(0, b"{}"), 1002),
    "text in a text": (frame(TEXT, b"{", final=False) + frame(TEXT, b"}"), 1002),
    "binary": (frame(BINARY, b"{}"), 1003),
    "invalid UTF-8": (frame(TEXT, b'{"event":"\xff"}'), 1007),
    "a surrogate": (frame(TEXT, b'"\xed\xa0\x80"'), 1007),
    "overlong": (frame(TEXT, b'"\xc0\x80"'), 1007),
    "half a character": (frame(TEXT, b'"\xe2\x82'), 1007),
    "invalid UTF-8 in an unfinished message": (frame(TEXT, b'"\xff', final=False), 1007),
    "close of one byte": (frame(CLOSE, b"\x03"), 1002),
    "close with 1005": (frame(CLOSE, b"\x03\xed"), 1002),
    "close with 999": (frame(CLOSE, b"\x03\xe7"), 1002),
    "close with a reason not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "close": (frame(CLOSE, b"\x03\xe8bye"), 1000),
    "HTTP again": (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1002),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_are_none(hub, name):
    data, code = FRAMES[name]
    with Wire(hub) as peer:
        peer.opened().send_if_open(data)
        assert peer.close_code() == code
        assert peer.rest() == b""


def test_random_frames(hub):
    dice = random.Random(SEED)
    for _ in range(50):
        with Wire(hub) as peer:
            peer.opened().send_if_open(bytes([dice.randrange(0x10, 0x70)]) + dice.randbytes(dice.choice([20, 5_000])))
            assert peer.close_code() == 1002, f"SEED={SEED}"


def test_fragments_with_pings_between(hub):
    message = json.dumps({"event": "pusher:ping", "data": {"note": "né 🙂"}}, ensure_ascii=False).encode()
    with Wire(hub) as peer:
        peer.opened()
        # One byte a fragment, so that characters are torn apart; a ping in each gap; all of it byte by byte.
        parts = [message[offset:offset + 1] for offset in range(len(message))]
        data = frame(TEXT, b"", final=False)
        for number, part in enumerate(parts):
            data += frame(PING, b"%d" % number) + frame(0, part, final=number == len(parts) - 1)
        for offset in range(0, len(data), 3):
            peer.send(data[offset:offset + 3])
        for number in range(len(parts)):
            assert peer.frame() == (PONG, b"%d" % number)
        assert peer.event()["event"] == "pusher:pong"
        # As big as allowed.
        peer.send(text(json.dumps({"event": "pusher:ping", "data": {}}).ljust(65_536)))
        assert peer.event()["event"] == "pusher:pong"


# Messages that are none: told, and the connection stays.

MESSAGES = {
    "10,000 deep": "[" * 10_000 + "]" * 10_000,
    "10,000 objects deep": '{"event":"pusher:ping","data":' + '{"a":' * 10_000 + "1" + "}" * 10_001,
    "10,000 deep, never closed": "[" * 10_000,
    "10,000 deep in a string": json.dumps({"event": "pusher:subscribe", "data": "[" * 10_000}),
    "empty": "", "blank": " ", "a word": "hello", "cut": '{"event":"pusher:ping"', "more behind": '{"event":"x"} {}',
    "an array": "[]", "a number": "1e999999", "null": "null", "a string": '"pusher:ping"',
    "no event": "{}", "event a number": '{"event":7}', "event null": '{"event":null}', "event empty": '{"event":""}',
    "event long": json.dumps({"event": "x" * 201}), "event twice": '{"event":"pusher:ping","event":"pusher:ping"}',
    "half a surrogate pair": '{"event":"\\ud800"}', "a control": '{"event":"a\x01"}', "NaN": '{"event":NaN}',
    "unknown": '{"event":"hello"}', "unknown of ours": '{"event":"sync:hello"}',
    "unknown of Pusher's": '{"event":"pusher:hello"}',
    "internal": '{"event":"pusher_internal:subscription_succeeded","channel":"x","data":"{}"}',
    "client event": '{"event":"client-x","channel":"private-x","data":{}}',
    "subscribe to nothing": '{"event":"pusher:subscribe"}', "data an array": '{"event":"pusher:subscribe","data":[]}',
    "data a word": '{"event":"pusher:subscribe","data":"x"}',
    "channel a number": '{"event":"pusher:subscribe","data":{"channel":1}}',
    "channel twice": '{"event":"pusher:subscribe","data":{"channel":"a","channel":"b"}}',
    "signature a number": '{"event":"pusher:subscribe","data":{"channel":"private-a","auth":1}}',
    "signin without data": '{"event":"pusher:signin"}', "signin with nothing": '{"event":"pusher:signin","data":{}}',
    "signin unsigned": json.dumps({"event": "pusher:signin", "data": {"auth": "", "user_data": '{"id":"demo"}'}}),
    "token missing": '{"event":"sync:auth","data":{}}', "token a number": '{"event":"sync:auth","data":{"token":7}}',
    "token empty": '{"event":"sync:auth","data":{"token":""}}',
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_that_are_none(hub, name):
    with Wire(hub) as peer:
        answer = peer.opened().ask(MESSAGES[name])
        assert answer["event"] == "pusher:error" and answer["data"]["code"] is None and answer["data"]["message"]
        peer.lives()


def test_a_signature_that_is_too_long(hub, user):
    with Device(hub) as device:
        device.subscribe("private-a", auth="x" * 600)
        assert device.refused("private-a").data["status"] == 401
        device.answered()


def test_signatures_that_do_not_fit(hub, user):
    with Device(hub) as device, Device(hub) as other:
        good = BACKEND.authenticate("private-x", device.socket_id)["auth"]
        of_another = BACKEND.authenticate("private-x", other.socket_id)["auth"]
        key, digest = good.split(":")
        for auth in (of_another, good[:-1], good + "0", digest, ":" + digest, f"other:{digest}", f"{key}:",
                     f"{key}:{digest.upper()}x", f"{key}:" + "é" * 32, "", None):
            start = device.count()
            device.subscribe("private-x", auth=auth)
            assert device.refused("private-x", start=start).data["status"] == 401
        device.subscribe("private-x", auth=good, channel_data="{}")
        device.answered()
        start = device.count()
        device.subscribe("private-x", auth=good)
        device.subscribed("private-x", start=start)

        signed = BACKEND.authenticate_user(other.socket_id, {"id": user})
        device.send("pusher:signin", signed)
        assert "signature" in device.complaint().data["message"]
        start = device.count()
        signed = BACKEND.authenticate_user(device.socket_id, {"id": user})
        device.send("pusher:signin", {**signed, "user_data": '{"id":"x"}'})
        assert "signature" in device.complaint(start).data["message"]
        # And now the right one, and then another user's: refused, and nothing changes.
        device.sign_in(user)
        device.signed_in()
        start = device.count()
        device.sign_in(user + "x")
        assert "another user" in device.complaint(start).data["message"]
        device.subscribe(stream(user))
        device.subscribed(stream(user))


def test_tokens_that_are_none(hub, user):
    bad = tokens.bad_ones(hub.record()["jwtSecret"], user)
    kinds = list(bad.items())
    # Ten refused in a row would close the connection.
    for some in (kinds[start:start + 8] for start in range(0, len(kinds), 8)):
        refuses(hub, user, some)


def refuses(hub, user, bad):
    with Device(hub) as device:
        device.subscribe(stream(user))
        for name, token in bad:
            start = device.count()
            device.authenticate(token)
            complaint = device.complaint(start)
            assert complaint.data["message"] and complaint.data["code"] is None, name
            with Wire(hub) as peer:
                body = f"socket_id={device.socket_id}"
                peer.send(f"POST /pusher/user-auth HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}")
                # Above 8 KiB the head itself is refused.
                status = 431 if name == "too long" else 401
                assert peer.response().status == status, name
            with Wire(hub) as peer:
                assert peer.upgrade(Authorization=f"Bearer {token}").status == status, name
        device.answered()
        assert not [frame for frame in device.frames if frame.channel or frame.event == "sync:auth_ok"]
        # The right one is not too late.
        device.authenticate(hub.token(user))
        device.authenticated()
        device.subscribed(stream(user))


@pytest.mark.parametrize("path, code", [
    ("/app/nobody?protocol=7", 4001), ("/app/?protocol=7", 4001), (f"/app/{APP_KEY}x?protocol=7", 4001),
    (f"/app/{APP_KEY}?protocol=4", 4007), (f"/app/{APP_KEY}?protocol=8", 4007), (f"/app/{APP_KEY}?protocol=0", 4007),
    (f"/app/{APP_KEY}?protocol=seven", 4006), (f"/app/{APP_KEY}?protocol=-7", 4006),
    (f"/app/{APP_KEY}?protocol=99999999999999999999", 4006),
])
def test_codes_of_the_handshake(strict, path, code):
    with Wire(strict) as peer:
        assert peer.upgrade(path).status == 101
        error = peer.event()
        assert error["event"] == "pusher:error" and error["data"]["code"] == code
        assert peer.close_code() == code
        assert peer.rest() == b""


# And the hub lives on.

def garbage(hub, dice):
    """One round of all of the above."""
    for data, _ in HTTP.values():
        with Wire(hub) as peer:
            peer.send_if_open(data)
            peer.rest()
    for data, _ in FRAMES.values():
        with Wire(hub) as peer:
            peer.opened().send_if_open(data)
            peer.close_code()
    with Wire(hub) as peer:
        peer.opened()
        for message in MESSAGES.values():
            peer.ask(message)
        peer.send(frame(TEXT, b"x" * 60_000, final=False))
    with Wire(hub) as peer:
        peer.opened().send_if_open(dice.randbytes(10_000))


def test_memory_is_as_before(hub):
    dice = random.Random(SEED)
    for _ in range(10):
        garbage(hub, dice)
    before = wire.resident(hub.pid)
    for _ in range(100):
        garbage(hub, dice)
    after = wire.resident(hub.pid)
    assert hub.is_running
    assert after - before < 2_048, f"{before} KiB, then {after} KiB; SEED={SEED}"
    with Device(hub, token=hub.token("demo")) as device:
        device.authenticated()
        device.subscribe(stream("demo"))
        device.subscribed(stream("demo"))
        hub.query("update care.dose_occurrence set taken_at = clock_timestamp() where user_id = 'demo'")
        device.wait_for_event("occurrence.updated")
