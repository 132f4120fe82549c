"""A peer that says what it likes: bytes on a socket, well-formed or not, and frames read back (RFC 6455 §5)."""

import base64
import json
import os
import select
import socket
import struct
import time

from hub import APP_KEY
from waiting import PATIENCE

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(opcode, payload=b"", final=True, masked=True, reserved=0, length=None, width=None):
    """One frame. `length` is what the header claims; `width` is 7, 16 or 64: how many bits it takes to claim it."""
    length = len(payload) if length is None else length
    width = width or (7 if length < 126 else 16 if length < 1 << 16 else 64)
    bit = 0x80 if masked else 0
    head = bytes([(0x80 if final else 0) | reserved | opcode])
    if width == 7:
        head += bytes([bit | length])
    elif width == 16:
        head += bytes([bit | 126]) + struct.pack(">H", length)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", length)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def text(message):
    """A text frame of a JSON value, or of a text as it is."""
    return frame(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())


class Response:
    """An HTTP answer."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.body = body


class Wire:
    """A TCP connection to a hub."""

    def __init__(self, hub, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", hub.port))
        self._held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def send_if_open(self, data):
        """Sends garbage: the hub may have closed in the middle of it."""
        try:
            self.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def drip(self, data, interval=0.05):
        """A byte at a time, until there is an answer or nothing left to say."""
        for index in range(len(data)):
            self.send_if_open(data[index:index + 1])
            if select.select([self.socket], [], [], interval)[0]:
                return

    def _more(self):
        try:
            data = self.socket.recv(65_536)
        except ConnectionResetError:
            data = b""
        self._held += data
        return bool(data)

    def _take(self, count):
        while len(self._held) < count:
            if not self._more():
                raise EOFError(f"the hub closed after {self._held!r}")
        data, self._held = self._held[:count], self._held[count:]
        return data

    def rest(self):
        """All there is, up to the hub's closing."""
        while self._more():
            pass
        data, self._held = self._held, b""
        return data

    def response(self, to_head=False):
        """The next HTTP answer; `to_head`: of a HEAD request, whose body does not come."""
        while b"\r\n\r\n" not in self._held:
            if not self._more():
                raise EOFError(f"the hub closed after {self._held!r}")
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        answer = Response(head, b"")
        if not to_head and answer.status not in (101, 204):
            answer.body = self._take(int(answer.fields["content-length"]))
        return answer

    def upgrade(self, path=f"/app/{APP_KEY}?protocol=7", **fields):
        """Asks for a WebSocket; the answer."""
        lines = [f"GET {path} HTTP/1.1", "Host: hub", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.send("\r\n".join(lines) + "\r\n\r\n")
        return self.response()

    def opened(self, **fields):
        """Upgrades, and reads the first event."""
        assert self.upgrade(**fields).status == 101
        assert self.event()["event"] == "pusher:connection_established"
        return self

    def frame(self):
        """The next frame: opcode and payload. The hub sends whole messages, unmasked."""
        first, second = self._take(2)
        assert first & 0xF0 == 0x80 and second & 0x80 == 0, "one frame a message, bare"
        length = second & 0x7F
        if length == 126:
            length, = struct.unpack(">H", self._take(2))
        elif length == 127:
            length, = struct.unpack(">Q", self._take(8))
        return first & 0x0F, self._take(length)

    def has_more(self):
        """Whether a frame, or part of one, has come."""
        return bool(self._held) or bool(select.select([self.socket], [], [], 0)[0])

    def event(self):
        opcode, payload = self.frame()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    def ask(self, message):
        """Sends a message; the next one that comes."""
        self.send(text(message))
        return self.event()

    def lives(self):
        """The connection still does what it is there for."""
        assert self.ask({"event": "pusher:ping", "data": {}})["event"] == "pusher:pong"

    def close_code(self, skipping=False):
        """The code that the hub closes with, answered as RFC 6455 §5.5.1 asks; `skipping` what it says before."""
        while True:
            opcode, payload = self.frame()
            if opcode == CLOSE:
                self.send_if_open(frame(CLOSE, payload[:2]))
                return struct.unpack(">H", payload[:2])[0]
            assert skipping, (opcode, payload)


def resident(pid):
    """Kibibytes of memory that a process holds."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def within(seconds, since):
    """True while that much time has not passed since then (monotonic)."""
    return time.monotonic() - since < seconds
