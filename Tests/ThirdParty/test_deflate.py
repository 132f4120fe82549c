"""permessage-deflate, judged by Python's zlib and by the `websockets` package.

None of our own code compresses or decompresses here.
"""

import contextlib
import json
import os
import random
import string
import struct
import urllib.request
import zlib

import pytest
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

import wire
from device import Device
from hub import Hub
from names import stream
from waiting import eventually
from wire import TEXT, Wire

#: Printed with each failure that it has a part in.
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))

CHROME = "permessage-deflate; client_max_window_bits"
COMPRESSED = 0x40
WORDS = ["Magnesium", "taken", "occurrence.updated", "\\", "\"", "é€𝄞", "\n", "2025-11-02T08:03:00+01:00", " "]


def prose(numbers, length):
    """Text that comes again and again, as events do."""
    return "".join(numbers.choice(WORDS) for _ in range(length))[:length]


def noise(numbers, length):
    return "".join(numbers.choices(string.ascii_letters + string.digits, k=length))


class Squeezed(Wire):
    """A peer with zlib alone. Counts the frames that came compressed."""

    def __init__(self, hub, offer=CHROME):
        super().__init__(hub)
        self.compressed = 0
        answer = self.upgrade(**{"Sec-WebSocket-Extensions": offer})
        assert answer.status == 101
        self.agreed = answer.fields["sec-websocket-extensions"]
        assert self.event()["event"] == "pusher:connection_established"

    def frame(self):
        first, second = self._take(2)
        assert first & 0xB0 == 0x80 and second & 0x80 == 0, "one frame a message, bare"
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
        payload = self._take(length)
        if first & COMPRESSED:
            assert first & 0x0F == TEXT, "control frames are never compressed"
            self.compressed += 1
            # Of a new inflater: no context is taken over.
            payload = zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")
        return first & 0x0F, payload

    def say(self, payload, cuts=()):
        """A compressed message, in frames cut at those places."""
        offsets = [0, *sorted(cuts), len(payload)]
        for number, (start, end) in enumerate(zip(offsets, offsets[1:])):
            self.send(wire.frame(
                TEXT if number == 0 else 0, payload[start:end], final=number == len(offsets) - 2,
                reserved=COMPRESSED if number == 0 else 0))


def deflated(numbers, data):
    """One of the many ways to compress a message (RFC 7692 §7.2.1)."""
    level, strategy = numbers.randrange(10), numbers.choice([0, 1, 2, 3, 4])
    engine = zlib.compressobj(level, zlib.DEFLATED, -numbers.randrange(9, 16), numbers.randrange(1, 10), strategy)
    payload = b""
    while data and numbers.random() < 0.5:
        cut = numbers.randrange(len(data) + 1)
        payload += engine.compress(data[:cut]) + engine.flush(numbers.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH]))
        data = data[cut:]
    if numbers.random() < 0.3:
        # A final block (§7.2.3.4), with the byte behind it or without.
        return payload + engine.compress(data) + engine.flush(zlib.Z_FINISH) + numbers.choice([b"\0", b""])
    payload += engine.compress(data) + engine.flush(zlib.Z_SYNC_FLUSH)
    assert payload.endswith(b"\0\0\xff\xff")
    return payload[:-4]


@pytest.fixture(scope="module")
def notes(hub):
    """A table of texts, published: `notes(user, text, …)` commits them, one event each."""
    with hub.database() as connection:
        connection.execute("create table app_blob (id bigint generated always as identity primary key,"
                           " user_id text not null, body text not null)")
        connection.execute("select sync.publish_changes('app_blob', 'user_id', 'blob', 'blob')")

        def commit(user, *texts):
            for text in texts:
                connection.execute("insert into app_blob (user_id, body) values (%s, %s)", [user, text])

        yield commit


def subscribed(peer, hub, user):
    """Takes the peer into the user's stream of texts; where that stands."""
    peer.send(wire.text({"event": "sync:auth", "data": {"token": hub.token(user)}}))
    peer.send(wire.text({"event": "pusher:subscribe", "data": {"channel": stream(user, "blob")}}))
    assert peer.event()["event"] == "sync:auth_ok"
    answer = peer.event()
    assert answer["event"] == "pusher_internal:subscription_succeeded"
    return json.loads(answer["data"])["sync"]


PARAMETERS = [
    {}, {"server_no_context_takeover": True}, {"client_no_context_takeover": True},
    {"server_no_context_takeover": True, "client_no_context_takeover": True, "server_max_window_bits": 9},
    {"server_max_window_bits": 10, "client_max_window_bits": 10}, {"server_max_window_bits": 12},
    {"server_max_window_bits": 15, "client_max_window_bits": 15}, {"client_max_window_bits": True},
    {"client_max_window_bits": 9},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda parameters: ",".join(parameters) or "none")
def test_websockets_reads_and_writes(hub, user, notes, parameters):
    numbers = random.Random(f"{SEED} {parameters}")
    texts = [maker(numbers, length) for length in (1, 300, 490, 520, 2000, 4000) for maker in (prose, noise)]
    factory = ClientPerMessageDeflateFactory(**parameters)
    with Device(hub, token=hub.token(user), extensions=[factory]) as device, Device(hub, token=hub.token(user)) as other:
        extension, = device.extensions
        assert extension.remote_no_context_takeover and extension.local_no_context_takeover
        assert extension.remote_max_window_bits == parameters.get("server_max_window_bits", 15)
        for peer in device, other:
            # Compressed by `websockets`, however long.
            peer.subscribe(stream(user, "blob"), pad=noise(numbers, 3000))
            peer.subscribed(stream(user, "blob"))
        notes(user, *texts)
        for peer in device, other:
            peer.wait_for(lambda frame: frame.channel and frame.data.get("body") == texts[-1], "the last event")
            assert [frame.data["body"] for frame in peer.events(stream(user, "blob"))] == texts, f"SEED={SEED}"


@pytest.mark.parametrize("bits", [9, 10, 11, 12, 15])
def test_a_window_as_small_as_was_asked(hub, user, notes, bits):
    """An inflater of just that window can read it all."""
    numbers = random.Random(f"{SEED} {bits}")
    with Squeezed(hub, f"permessage-deflate; server_max_window_bits={bits}") as peer:
        assert peer.agreed.endswith(f"; server_max_window_bits={bits}")
        subscribed(peer, hub, user)
        texts = [prose(numbers, 4000), noise(numbers, 700) * 12]
        notes(user, *texts)
        strict = []
        for text in texts:
            first, second = peer._take(2)
            assert first == 0x80 | COMPRESSED | TEXT
            length = second if second < 126 else struct.unpack(">H", peer._take(2))[0]
            strict.append(zlib.decompressobj(-bits).decompress(peer._take(length) + b"\0\0\xff\xff"))
        bodies = [json.loads(json.loads(message)["data"])["body"] for message in strict]
        assert bodies == texts, f"SEED={SEED}"


def said(peer):
    """The next event but how many are in a channel, which the demonstration's app tells."""
    return next(event for event in iter(peer.event, None) if event["event"] != "pusher_internal:subscription_count")


def test_every_way_to_compress_is_read(hub):
    numbers = random.Random(SEED)
    with Squeezed(hub) as peer:
        for round_number in range(300):
            # The name comes back, so that every byte is seen to have arrived.
            name = noise(numbers, numbers.randrange(1, 164))
            pad = numbers.choice([prose, noise])(numbers, numbers.choice([0, 50, 3000, 30_000]))
            data = json.dumps({"event": "pusher:subscribe", "data": {"channel": name, "pad": pad}},
                              ensure_ascii=numbers.random() < 0.5).encode()
            payload = deflated(numbers, data)
            cuts = [numbers.randrange(len(payload) + 1) for _ in range(numbers.choice([0, 0, 1, 2, 5]))]
            peer.say(payload, cuts)
            answer = said(peer)
            assert (answer["event"], answer["channel"]) == ("pusher_internal:subscription_succeeded", name), \
                f"SEED={SEED}, round {round_number}"
            peer.send(wire.text({"event": "pusher:unsubscribe", "data": {"channel": name}}))
        peer.send(wire.text({"event": "pusher:ping", "data": {}}))
        assert said(peer)["event"] == "pusher:pong"


def test_no_honest_way_is_taken_for_padding():
    """zlib with each of its memories and strategies: with the least one it makes a block of every 127 symbols."""
    numbers = random.Random(SEED)
    hexadecimal, pair = (lambda length: "".join(numbers.choices(digits, weights=weights, k=length)) for digits, weights in
                         (("0123456789abcdef", None), ("0123456789", range(1, 11))))
    with Hub("--limits-messages-per-second", "0") as hub:
        hub.wait_until_listening()
        with Squeezed(hub) as peer:
            for memory in range(1, 10):
                for strategy in range(5):
                    pads = [hexadecimal(60_000), pair(60_000), noise(numbers, 60_000), prose(numbers, 40_000), "",
                            "é" * 25_000, noise(numbers, numbers.randrange(1, 3_000))]
                    for pad in pads:
                        text = json.dumps({"event": "pusher:ping", "data": {"pad": pad}}, ensure_ascii=False).encode()
                        level, bits = numbers.randrange(10), numbers.randrange(9, 16)
                        engine = zlib.compressobj(level, zlib.DEFLATED, -bits, memory, strategy)
                        middle = numbers.randrange(len(text))
                        payload = engine.compress(text[:middle])
                        payload += engine.flush(numbers.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH]))
                        payload += engine.compress(text[middle:]) + engine.flush(zlib.Z_SYNC_FLUSH)
                        peer.say(payload[:-4])
                        assert said(peer)["event"] == "pusher:pong", f"SEED={SEED} {memory} {strategy} {level} {bits}"


#: Empty blocks: stored, final with a byte's padding, and with fixed codes, ten bits each.
EMPTY = [b"\0\0\0\xff\xff", b"\x03\0", sum(0b010 << 10 * number for number in range(4)).to_bytes(5, "little")]


@pytest.mark.parametrize("block", EMPTY, ids=["stored", "final", "fixed"])
@pytest.mark.parametrize("fragment", [70_000, 5, 1], ids=["whole", "in fragments", "in bytes"])
def test_padding_is_refused(hub, block, fragment):
    size = min(70_000, fragment * 1_000)
    payload = block * (size // len(block)) + b"\0"
    with Squeezed(hub) as peer, Squeezed(hub) as neighbour:
        peer.say(payload, range(fragment, len(payload), fragment))
        # 1 KiB is nobody's harm: the message is empty, and no event.
        if len(payload) <= 1_024 - 5:
            assert said(peer)["event"] == "pusher:error"
        else:
            assert peer.close_code() == 1008
        neighbour.lives()


def test_a_replay_is_compressed(hub, user, notes):
    numbers = random.Random(SEED)
    texts = [prose(numbers, length) for length in (900, 20, 5000, 400, 600)] * 5
    with Squeezed(hub) as peer:
        start = subscribed(peer, hub, user)
        notes(user, *texts)
        for text in texts:
            event = json.loads(peer.event()["data"])
            assert event["body"] == text
    with Squeezed(hub) as peer:
        subscribed(peer, hub, user)
        peer.send(wire.text({"event": "sync:resume", "data": {"v": 1, "channels": {stream(user, "blob"): start}}}))
        answer = json.loads(peer.event()["data"])["channels"][stream(user, "blob")]
        assert answer["recovered"] and answer["replayed"] == len(texts), answer
        seen = [json.loads(peer.event()["data"])["body"] for _ in texts]
        assert seen == texts, f"SEED={SEED}"
        assert peer.compressed >= 15
        peer.lives()


@pytest.mark.parametrize("payload, code", [
    (b"\xff\xff", 1007), (b"\xf2\x48\xcd", 1007), (b"\0\x01\0\xfe\xff\xc3\0", 1007), (b"\x02\x07", 1007),
], ids=["no block", "cut", "no UTF-8", "noise"])
def test_what_is_no_message_is_refused(hub, payload, code):
    with Squeezed(hub) as peer, Squeezed(hub) as neighbour:
        peer.say(payload)
        assert peer.close_code() == code
        neighbour.lives()


def test_a_bomb_costs_the_limit(hub):
    """64 MiB in 64 KiB: closed with 1009, and the hub no larger for it."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(engine.compress(b" " * (1 << 20)) for _ in range(64)) + engine.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < 1.125 * (64 << 10)
    with Squeezed(hub) as peer:
        peer.say(bomb)
        assert peer.close_code() == 1009
    before = hub.resident_bytes()
    for _ in range(50):
        with Squeezed(hub) as peer:
            peer.say(bomb)
            assert peer.close_code() == 1009
    assert hub.resident_bytes() - before < 2 << 20
    for spaces, code in ((1 << 16, None), ((1 << 16) + 1, 1009)):
        with Squeezed(hub) as peer:
            ping = b'{"event":"pusher:ping"}'
            peer.say(deflated(random.Random(SEED), ping + b" " * (spaces - len(ping))))
            if code:
                assert peer.close_code() == code
            else:
                assert peer.event()["event"] == "pusher:pong"


def test_a_thousand_connections_cost_no_more_for_it(record_property):
    """Compressors belong to loops, not to connections: connections with compression need no more memory than
    those without."""
    with Hub() as hub:
        hub.wait_until_listening()

        def held(offers):
            """Bytes of a hub with a thousand connections that have said something long and been answered."""
            with contextlib.ExitStack() as peers:
                for _ in range(1000):
                    peer = peers.enter_context(Squeezed(hub) if offers else Wire(hub).opened())
                    long = json.dumps({"event": "pusher:ping", "data": {"pad": "zinc " * 2000}}).encode()
                    if offers:
                        peer.say(deflated(random.Random(1), long))
                    else:
                        peer.send(wire.frame(TEXT, long))
                    assert peer.event()["event"] == "pusher:pong"
                size = hub.resident_bytes()
            eventually(lambda: hub.descriptors() < 200, "the connections are gone")
            return size

        plain, compressing = held(False), held(True)
        with urllib.request.urlopen(hub.operations + "/metrics", timeout=10) as answer:
            assert "\ncarillon_decompressions_total 1000\n" in answer.read().decode()
        record_property("report", f"1,000 connections that compress take {(compressing - plain) >> 10} KiB more in all")
        # One window for each would be 40 MiB.
        assert compressing - plain < 2 << 20


def test_off_is_off():
    with Hub("--websocket-compression", "false") as hub, Wire(hub) as peer:
        assert "sec-websocket-extensions" not in peer.upgrade(**{"Sec-WebSocket-Extensions": CHROME}).fields
        assert peer.event()["event"] == "pusher:connection_established"
        peer.send(wire.frame(TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00", reserved=COMPRESSED))
        assert peer.close_code() == 1002


def test_a_malformed_offer_is_no_handshake(hub):
    with Wire(hub) as peer:
        assert peer.upgrade(**{"Sec-WebSocket-Extensions": "permessage-deflate; =9"}).status == 400
