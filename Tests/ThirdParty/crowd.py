"""Thousands of Pusher clients on one thread: sockets, frames and what each client knows, and nothing else."""

import base64
import hashlib
import hmac
import json
import os
import select
import socket
import struct
import time

from waiting import PATIENCE

# Connections that are opened at a time; a hub's backlog is longer.
OPENING = 256


class Person:
    """One client: where it is connected, what it wants to be in, and what it was told."""

    def __init__(self, crowd, number, user):
        self.crowd, self.number, self.user = crowd, number, user
        self.socket = None
        self.reset()

    def reset(self):
        self.held = b""
        self.socket_id = None
        #: Channels that it has asked for and not left.
        self.inside = set()
        #: Members of its presence channels, and the last count of its public ones, as told.
        self.members, self.counts = {}, {}
        self.acknowledged = set()
        self.pings = self.pongs = 0
        self.close_code = None

    @property
    def is_open(self):
        return self.socket is not None and self.socket_id is not None

    # What it does.

    def open(self):
        self.reset()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        # One address has too few ports for what comes and goes.
        self.socket.bind((f"127.0.0.{2 + self.number % 200}", 0))
        self.socket.connect_ex(("127.0.0.1", self.crowd.port))
        self.crowd.watch(self, select.EPOLLOUT)

    def send(self, event, data):
        payload = json.dumps({"event": event, "data": data}).encode()
        head = struct.pack(">BB", 0x81, 0x80 | len(payload)) if len(payload) < 126 else struct.pack(
            ">BBH", 0x81, 0x80 | 126, len(payload))
        # A mask of zeros is one (RFC 6455 §5.3 wants it unpredictable for the sake of browsers alone).
        self.write(head + b"\0\0\0\0" + payload)

    def write(self, data):
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        assert sent == len(data), "the hub does not read"

    def join(self, channel):
        data = {"channel": channel}
        if channel.startswith("presence-"):
            data["channel_data"] = json.dumps({"user_id": self.user, "user_info": {"n": self.number}})
            text = f"{self.socket_id}:{channel}:{data['channel_data']}".encode()
            data["auth"] = f"{self.crowd.app.key}:" + hmac.new(
                self.crowd.app.secret.encode(), text, hashlib.sha256).hexdigest()
        self.inside.add(channel)
        self.acknowledged.discard(channel)
        self.send("pusher:subscribe", data)

    def leave(self, channel):
        self.inside.discard(channel)
        self.members.pop(channel, None)
        self.counts.pop(channel, None)
        self.send("pusher:unsubscribe", {"channel": channel})

    def ping(self):
        self.pings += 1
        self.send("pusher:ping", {})

    def drop(self, reset=False):
        """Ends without a close frame; `reset`: as one whose machine is gone and come again."""
        if self.socket is not None:
            if reset:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.crowd.forget(self)
            self.socket.close()
            self.socket = None
        self.reset()

    # What it hears.

    def readable(self):
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.crowd.lost(self)
            return
        self.held += data
        if self.socket_id is None and self.held.startswith(b"HTTP/1.1"):
            head, mark, rest = self.held.partition(b"\r\n\r\n")
            if not mark:
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self.held = rest
        self._frames()

    def _frames(self):
        held, offset, end = self.held, 0, len(self.held)
        while end - offset >= 2:
            length, start = held[offset + 1], offset + 2
            if length == 126:
                start += 2
                if end < start:
                    break
                length = held[start - 2] << 8 | held[start - 1]
            elif length == 127:
                start += 8
                if end < start:
                    break
                length, = struct.unpack_from(">Q", held, start - 8)
            if end < start + length:
                break
            self._frame(held[offset] & 15, held[start:start + length])
            offset = start + length
        self.held = held[offset:]

    def _frame(self, opcode, payload):
        if opcode == 1:
            message = json.loads(payload)
            self._event(message["event"], message.get("channel"), message.get("data"))
        elif opcode == 8:
            self.close_code, = struct.unpack(">H", payload[:2])
        elif opcode == 9:
            self.write(struct.pack(">BB", 0x8A, 0x80 | len(payload)) + b"\0\0\0\0" + payload)

    def _event(self, event, channel, data):
        self.crowd.events += 1
        if event == "pusher_internal:member_added":
            if channel in self.inside and channel in self.members:
                self.members[channel].add(json.loads(data)["user_id"])
        elif event == "pusher_internal:member_removed":
            if channel in self.inside and channel in self.members:
                self.members[channel].discard(json.loads(data)["user_id"])
        elif event == "pusher_internal:subscription_count":
            if channel in self.inside:
                self.counts[channel] = json.loads(data)["subscription_count"]
        elif event == "pusher_internal:subscription_succeeded":
            if channel in self.inside:
                self.acknowledged.add(channel)
                if channel.startswith("presence-"):
                    self.members[channel] = set(json.loads(data)["presence"]["ids"])
        elif event == "pusher:pong":
            self.pongs += 1
        elif event == "pusher:connection_established":
            self.socket_id = json.loads(data)["socket_id"]
        else:
            self.crowd.faults.append(f"{self.number}: {event} {channel} {data}")


class Crowd:
    """All of them, on one epoll."""

    def __init__(self, port, app, count, users):
        self.port, self.app = port, app
        self.people = [Person(self, number, f"user-{number % users}") for number in range(count)]
        #: What nobody expects.
        self.faults = []
        self.events = 0
        self._epoll = select.epoll()
        self._by_descriptor = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for person in self.people:
            person.drop(reset=True)
        self._epoll.close()

    def watch(self, person, events):
        self._by_descriptor[person.socket.fileno()] = person
        self._epoll.register(person.socket.fileno(), events)

    def forget(self, person):
        self._by_descriptor.pop(person.socket.fileno(), None)
        try:
            self._epoll.unregister(person.socket.fileno())
        except OSError:
            pass

    def lost(self, person):
        self.faults.append(f"{person.number}: the hub closed its connection, {person.close_code}")
        person.drop()

    def turn(self, timeout=0.0):
        """Takes what has come."""
        for descriptor, events in self._epoll.poll(timeout, 1024):
            person = self._by_descriptor.get(descriptor)
            if person is None:
                continue
            if events & select.EPOLLOUT:
                self._epoll.modify(descriptor, select.EPOLLIN)
                key = base64.b64encode(os.urandom(16)).decode()
                person.write((f"GET /app/{self.app.key}?protocol=7&client=crowd HTTP/1.1\r\nHost: hub\r\n"
                              "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                              f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
            else:
                person.readable()

    def until(self, condition, what, timeout=None):
        """Takes what comes until the condition is true."""
        deadline = time.monotonic() + (timeout or 4 * PATIENCE)
        while not condition():
            assert time.monotonic() < deadline, f"it did not come true in time: {what}; {self.faults[:5]}"
            self.turn(0.02)

    def open(self, people):
        """Connects them, some at a time."""
        waiting, under_way = list(people)[::-1], []
        while waiting or under_way:
            while waiting and len(under_way) < OPENING:
                under_way.append(waiting.pop())
                under_way[-1].open()
            before = len(under_way)

            def one_is_there():
                return sum(person.is_open for person in under_way) or self.faults

            self.until(one_is_there, "connections are established")
            under_way = [person for person in under_way if not person.is_open]
            assert len(under_way) < before, self.faults[:5]

    def answered(self, people):
        """A round trip of each client: the hub has handled what it said before, and its channels' shards have
        let it in."""
        people = [person for person in people if person.is_open]
        for person in people:
            person.ping()
        self.until(lambda: all(person.pongs == person.pings and person.inside <= person.acknowledged
                               for person in people if person.is_open), "pongs, and channels")
