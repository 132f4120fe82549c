"""Clients that mean no good: while they try, a device hears of its doses, and afterwards the hub is as it was.

Each is stopped by a limit that has a name, and counted under it: the operator's page has the table of limits.
"""

import concurrent.futures
import contextlib
import os
import resource
import threading
import time

import pytest

from device import Device
from doses import add_dose, hears, joined
from hub import APP_KEY, Hub
from names import stream
from plain import Application, Member, PlainHub, members
from test_operations import metrics
from waiting import PATIENCE, eventually
from wire import PING, TEXT, Wire, frame, text

#: Attackers at a time.
MANY = 20
#: Bytes that the hub may have gained by an attack: what allocators keep, and nothing for each attacker's tries.
GROWTH = 24 << 20

#: Four empty blocks with DEFLATE's fixed codes: ten bits each.
EMPTY_FIXED_BLOCKS = sum(0b010 << 10 * number for number in range(4)).to_bytes(5, "little")

PING_MESSAGE = text({"event": "pusher:ping", "data": {}})


@pytest.fixture(scope="module")
def victim():
    with Hub("--handshake-timeout", "2s", "--pong-timeout", "1s", "--limits-messages-per-second", "30",
             "--trusted-proxies", "127.0.0.0/8", "--limits-connects-per-second", "1") as running:
        running.wait_until_listening()
        yield running


def limit(hub, name):
    return metrics(hub)[f'carillon_limits_reached_total{{limit="{name}"}}']


def head(hub, number):
    """A head, a line now and then, and never the last."""
    with Wire(hub) as peer:
        peer.drip(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 1_000, interval=0.02)
        assert peer.response().status == 408
        assert peer.rest() == b""


def body(hub, number):
    with Wire(hub) as peer:
        peer.send(b"POST /pusher/auth HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n")
        peer.drip(b"x" * 10_000, interval=0.02)
        assert peer.response().status == 408
        assert peer.rest() == b""


def upgrade(hub, number):
    """An upgrade whose head does not end."""
    with Wire(hub) as peer:
        peer.send(f"GET /app/{APP_KEY}?protocol=7 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        assert peer.response().status == 408


def many_fields(hub, number):
    with Wire(hub) as peer:
        peer.send_if_open(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 10_000)
        assert peer.response().status == 431


def unfinished(hub, number):
    """A frame that claims 60,000 bytes, of which a few come; or fragments, one now and then, and never the last."""
    with Wire(hub) as peer:
        peer.opened()
        # A message has half a minute.
        peer.socket.settimeout(30 + PATIENCE)
        if number % 2 == 0:
            peer.send(frame(TEXT, b"{" * 100, length=60_000))
        else:
            peer.send(frame(TEXT, b"{", final=False))
            peer.drip(frame(0, b" ", final=False) * 500, interval=0.01)
        assert peer.close_code() == 1008


def empty_fragments(hub, number):
    with Wire(hub) as peer:
        peer.opened()
        peer.send_if_open(frame(TEXT, b"", final=False) + frame(0, b"", final=False) * 5_000)
        assert peer.close_code() == 1008


def padding(hub, number):
    """A compressed message of empty blocks, of each kind in turn."""
    with Wire(hub) as peer:
        peer.opened(**{"Sec-WebSocket-Extensions": "permessage-deflate"})
        blocks = [b"\0\0\0\xff\xff", b"\x03\0", EMPTY_FIXED_BLOCKS][number % 3]
        peer.send(frame(TEXT, blocks * (70_000 // len(blocks)), reserved=0x40))
        assert peer.close_code() == 1008


def pings(hub, number):
    """Whose answers are not read until the end."""
    with Wire(hub) as peer:
        peer.opened()
        for _ in range(50):
            peer.send_if_open(frame(PING, b"x" * 125) * 100)
        closed_by(peer, 4100)


def messages(hub, number):
    with Wire(hub) as peer:
        peer.opened()
        for _ in range(50):
            peer.send_if_open(PING_MESSAGE * 100)
        closed_by(peer, 4100)


def closed_by(peer, code):
    """The close frame, where what was sent after it has not reset the connection first."""
    with contextlib.suppress(EOFError):
        assert peer.close_code(skipping=True) == code


ATTACKS = {
    head: "limits.requestBytesPerSecond", body: "limits.requestBytesPerSecond",
    upgrade: "limits.requestBytesPerSecond", many_fields: "limits.headBytes",
    unfinished: "messageTimeout", empty_fragments: "limits.messageFragments", pings: "limits.controlFramesPerSecond",
    messages: "limits.messagesPerSecond", padding: "messagePadding",
}


class Attackers:
    """Many at once, each on a thread of its own; they end with the block, and so does the test where one is surprised."""

    def __init__(self, hub, attack, count=MANY):
        self._surprises = []
        self._threads = [threading.Thread(target=self._run, args=[attack, hub, number], daemon=True)
                         for number in range(count)]

    def _run(self, attack, hub, number):
        try:
            attack(hub, number)
        except BaseException as surprise:
            self._surprises.append(surprise)

    def __enter__(self):
        for thread in self._threads:
            thread.start()

    def __exit__(self, *failure):
        for thread in self._threads:
            thread.join()
        if not any(failure) and self._surprises:
            raise self._surprises[0]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_device_hears_of_its_doses_meanwhile(victim, user, attack, record_property):
    name = ATTACKS[attack]
    # The library of the backend takes no brackets.
    user = user.replace("[", "-").replace("]", "")
    with joined(victim, user) as device:
        # What the first of everything takes is not the attack's.
        hears(device, user, add_dose(victim, user))
        before, memory = limit(victim, name), victim.resident_bytes()
        waits = []
        with Attackers(victim, attack):
            for _ in range(5):
                begun = time.monotonic()
                hears(device, user, add_dose(victim, user))
                device.answered()
                waits.append(time.monotonic() - begun)
        assert limit(victim, name) >= before + MANY
        assert victim.resident_bytes() < memory + GROWTH
    record_property("report", f"doses heard of within {max(waits) * 1000:.0f} ms, psql's start included; memory "
                    f"{(victim.resident_bytes() - memory) / 1024:+.0f} KiB")


def test_a_window_that_stays_shut(victim, user):
    """Clients ask, and read no answer: their receive window stays shut."""
    with joined(victim, user) as device, contextlib.ExitStack() as stack:
        before = limit(victim, "unackedTimeout")
        for _ in range(5):
            peer = stack.enter_context(Wire(victim, receive_buffer=2_048)).opened()
            peer.send(PING_MESSAGE * 280)
        hears(device, user, add_dose(victim, user))
        eventually(lambda: limit(victim, "unackedTimeout") >= before + 5, "the hub gives them up")
        device.answered()


def test_requests_sent_ahead_wait_for_their_answers_to_be_read(user):
    """Thousands, of which no answer is read, and then all. Without the rate of an address: it would take hours."""
    request = b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"
    with Hub("--limits-requests-per-second", "0") as hub, joined(hub, user) as device, \
            Wire(hub, receive_buffer=4_096) as peer:
        memory, before = hub.resident_bytes(), limit(hub, "pipelining")
        sender = threading.Thread(target=peer.send, args=[request * 20_000], daemon=True)
        sender.start()
        eventually(lambda: limit(hub, "pipelining") > before, "the requests take turns")
        for _ in range(5):
            hears(device, user, add_dose(hub, user))
        assert hub.resident_bytes() < memory + GROWTH
        for _ in range(20_000):
            assert peer.response().status == 404
        sender.join()


def test_connects_of_one_address(victim, user):
    """Behind a trusted proxy, by X-Forwarded-For; this machine's own are exempt, so the device comes and goes."""
    before = metrics(victim)['carillon_connections_refused_total{reason="address_fast"}']

    def status(address):
        with Wire(victim) as peer:
            return peer.upgrade(**{"X-Forwarded-For": address}).status

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        seen = list(pool.map(status, ["198.51.100.9, 192.0.2.1"] * 60))
        allowed = 20 + (time.monotonic() - begun) + 1
        assert set(seen) == {101, 429} and 20 <= seen.count(101) <= allowed, "ten wait for their turn"
        network = list(pool.map(status, [f"2001:db8:0:1::{number:x}" for number in range(60)]))
        assert network.count(429) > 0, "one network is one address"
    assert status("192.0.2.2") == 101
    assert [status("malformed") for _ in range(20)] == [101] * 20
    with joined(victim, user) as device:
        hears(device, user, add_dose(victim, user))
    refused = metrics(victim)['carillon_connections_refused_total{reason="address_fast"}'] - before
    assert refused >= seen.count(429)


def test_out_of_descriptors(user):
    """Those who are connected stay; those who come wait, and get in when there are descriptors again."""
    with Hub() as hub, contextlib.ExitStack() as stack:
        hub.wait_until_listening()
        device = stack.enter_context(joined(hub, user))
        before = metrics(hub)["carillon_accept_pauses_total"]
        limits = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir(f"/proc/{hub.pid}/fd"))
        begun = time.monotonic()
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (highest + 6, limits[1]))
        peers = [stack.enter_context(Wire(hub)) for _ in range(30)]
        for _ in range(3):
            hears(device, user, add_dose(hub, user))
        # Long enough for some rests.
        eventually(lambda: time.monotonic() > begun + 2, "time passes")
        device.answered()
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, limits)
        for peer in peers:
            peer.opened()
        rests = metrics(hub)["carillon_accept_pauses_total"] - before
        assert 3 <= rests <= 10 * (time.monotonic() - begun) + 2, "a tenth of a second each: nothing spins"


def test_made_up_channels():
    """Connections that ask for a thousand channels each: the bound holds, others get theirs, and nothing is left of it."""
    with PlainHub(Application(), limits_channels=2_000, environment={"CARILLON_OPERATIONS_LISTEN": "127.0.0.1:0"}) as hub:
        with Member(hub) as honest:
            honest.join("news")
            with members(hub, 10) as crowd:
                for index, member in enumerate(crowd):
                    for number in range(1_000):
                        member.subscribe(f"made-up-{index}-{number}")
                answers = 0
                for member in crowd:
                    eventually(lambda: len(member.frames) == 1_001, "an answer to each subscribe")
                    refusals = [frame for frame in member.frames if frame.event == "pusher:subscription_error"]
                    assert all(frame.data["type"] == "LimitReached" and frame.data["status"] == 503
                               for frame in refusals)
                    answers += len(refusals)
                held = metrics(hub)["carillon_channels"]
                assert 1_000 <= held < 2_000 and answers == 10_001 - held
                assert limit(hub, "limits.channels") == answers
                # What exists, and some that nobody has made up.
                for channel in ("news", "made-up-0-0", "private-own", "presence-own"):
                    with Member(hub) as other:
                        other.join(channel, "u" if channel.startswith("presence-") else None)
            eventually(lambda: metrics(hub)["carillon_channels"] == 1, "no channel is left but the one")
            honest.answered()


def test_made_up_channels_take_no_streams(hub, user):
    """One user asks for a thousand channels on each of many connections. None of them reaches the database."""
    names = [f"user.{user}.{''.join(chr(97 + int(digit)) for digit in str(number))}" for number in range(1_000)]
    with contextlib.ExitStack() as open_ones, joined(hub, user) as device:
        device.subscribed(stream(user))
        before = metrics(hub)["carillon_feed_streams"]
        for _ in range(MANY):
            attacker = open_ones.enter_context(Device(hub))
            attacker.sign_in(user)
            for name in names:
                attacker.subscribe(name)
            answer = attacker.subscribed(names[-1])
            assert answer.data["sync"]["published"] is False
        assert metrics(hub)["carillon_feed_streams"] <= before + 2
        with joined(hub, user + "-other") as other:
            other.subscribed(stream(user + "-other"))
            hears(other, user + "-other", add_dose(hub, user + "-other"))
        hears(device, user, add_dose(hub, user))
