"""Ways from a phone to the hub, on asyncio: a Pusher socket, and plain HTTP. Each request has exactly one answer."""

import asyncio
import collections
import itertools
import json
from urllib.parse import quote

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from device import BACKEND, Frame
from hub import APP_KEY
from waiting import PATIENCE

#: What a line may raise when the hub goes away, or is not there.
LOST = (OSError, EOFError, ConnectionClosed, InvalidHandshake)


class Unanswered(Exception):
    """The line is fine, and yet there was no answer."""


async def in_time(awaitable, what):
    """Awaits with a deadline. A task that is cancelled in here ends: before Python 3.12, `asyncio.wait_for` swallows a
    cancellation that comes in the turn in which the answer is there, and the task lives on for ever."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await awaitable
    except TimeoutError:
        raise Unanswered(what) from None


class Socket:
    """A Pusher connection of a signed-in user. `on_frame` is told of all that is no answer to an action."""

    def __init__(self, web_socket, on_frame, on_text):
        self._socket = web_socket
        self._on_frame = on_frame
        self._on_text = on_text
        self._actions = collections.defaultdict(collections.deque)
        self._events = collections.defaultdict(collections.deque)
        self.lost = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    #: Every second connection offers permessage-deflate.
    _offers = itertools.cycle([None, "deflate"])

    @classmethod
    async def open(cls, port, on_frame, on_text, token=None):
        """`token`: sent with the upgrade."""
        headers = {"Authorization": f"Bearer {token}"} if token else None
        web_socket = await connect(
            f"ws://127.0.0.1:{port}/app/{APP_KEY}?protocol=7&client=storm&version=1", additional_headers=headers,
            compression=next(cls._offers), ping_interval=None, max_size=None, open_timeout=PATIENCE, close_timeout=1,
            proxy=None)
        return cls(web_socket, on_frame, on_text)

    async def _read(self):
        try:
            async for text in self._socket:
                self._on_text(text)
                frame = Frame(text)
                if frame.event == "sync:result":
                    self._resolve(self._actions[frame.data.get("key")], frame.data, frame)
                elif self._events[frame.event, frame.channel]:
                    self._resolve(self._events[frame.event, frame.channel], frame, frame)
                else:
                    self._on_frame(frame)
        except ConnectionClosed:
            pass
        finally:
            end = EOFError(f"closed with {self._socket.close_code}")
            if not self.lost.done():
                self.lost.set_result(self._socket.close_code)
            for waiting in [*self._actions.values(), *self._events.values()]:
                for future in waiting:
                    if not future.done():
                        future.set_exception(end)
                        # Nobody may be waiting for it any more.
                        future.exception()

    def _resolve(self, waiting, value, frame):
        if not waiting:
            return self._on_frame(frame)
        future = waiting.popleft()
        # Its asker may have given up, as all do when the storm is over. It was an answer nevertheless.
        if not future.done():
            future.set_result(value)

    async def say(self, event, data):
        await self._socket.send(json.dumps({"event": event, "data": data}))

    def _expect(self, waiting):
        if self.lost.done():
            raise EOFError("closed")
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return future

    async def sign_in(self, user, token=None):
        """With a token, or else signed by the app's backend. Ask at once: the hub says its socket id first."""
        established = await in_time(self._expect(self._events["pusher:connection_established", None]), "a greeting")
        if token:
            answer = self._expect(self._events["sync:auth_ok", None])
            await self.say("sync:auth", {"token": token})
        else:
            answer = self._expect(self._events["pusher:signin_success", None])
            await self.say("pusher:signin", BACKEND.authenticate_user(established.data["socket_id"], {"id": user}))
        await in_time(answer, "who I am")

    async def subscribe(self, channel):
        """The acknowledgement is a frame like others: events may follow it at once."""
        await self.say("pusher:subscribe", {"channel": channel})

    def is_waiting(self, key):
        return any(not future.done() for future in self._actions[key])

    async def send(self, envelope):
        """Sends an action; returns a future of its answer."""
        future = self._expect(self._actions[envelope["key"]])
        await self.say("sync:action", envelope)
        return future

    def cut(self):
        """Closes the socket without a goodbye, as in a tunnel."""
        self._socket.transport.abort()

    async def close(self):
        self.cut()
        await asyncio.wait([self._reader])


class Http:
    """Requests of one user, one connection each: phones that act by HTTP have no line to keep."""

    def __init__(self, port, user, token, on_text):
        self.port = port
        self.token = token
        self._on_text = on_text
        self._user = f"/users/{quote(user, safe='')}"
        self._path = f"{self._user}/adherence/"

    async def post(self, name, body, headers=None, cut=False):
        """Status, fields and body of the answer. `cut`: leaves without hearing it."""
        payload = json.dumps(body).encode()
        lines = [f"POST {self._path}{name} HTTP/1.1", "Host: hub", f"Authorization: Bearer {self.token}",
                 "Content-Type: application/json", f"Content-Length: {len(payload)}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + payload)
            await writer.drain()
            if cut:
                raise EOFError("cut by the phone")
            return await in_time(self._response(reader), f"an answer to POST {name}")
        finally:
            writer.transport.abort()

    async def get(self, path, headers=None):
        """Status, fields and body of the answer; the path is below the user's."""
        lines = [f"GET {self._user}{path} HTTP/1.1", "Host: hub", f"Authorization: Bearer {self.token}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            await writer.drain()
            return await in_time(self._response(reader), f"an answer to GET {path}")
        finally:
            writer.transport.abort()

    async def _response(self, reader):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        text = (await reader.readexactly(int(fields.get("content-length", 0)))).decode()
        self._on_text(text)
        return int(head[0].split(" ")[1]), fields, json.loads(text) if text else None

    async def act(self, envelope, shape="envelope", cut=False):
        """An action in one of three shapes; its answer as `sync:result` would have it."""
        if shape == "bulk" and envelope["type"] != "bulkMarkAll":
            shape = "seeds"
        if shape == "envelope":
            status, fields, body = await self.post("actions", envelope, cut=cut)
            return _checked(status, fields, body if "status" in body else {"key": envelope["key"], **body})
        rest = {name: value for name, value in envelope.items() if name not in ("v", "key", "type", "payload")}
        if shape == "seeds":
            members = {"idempotencyKey": envelope["key"], "actionType": envelope["type"],
                       "payload": envelope["payload"], **rest}
            status, fields, body = await self.post("actions", members, cut=cut)
        else:
            status, fields, body = await self.post(
                "bulk", {**rest, **envelope["payload"]}, {"Idempotency-Key": envelope["key"]}, cut=cut)
        return _checked(status, fields, _result(envelope, body, shape))


def _field(path, envelope, shape):
    """The name of the field at fault in the format of the request."""
    if shape == "seeds":
        return "type" if path == "actionType" else path
    member = path.replace("[", ".").split(".")[0]
    return f"payload.{path}" if member not in envelope else path


def _result(envelope, body, shape):
    """An answer in the seeds' format, written as an envelope's answer."""
    told = dict(body.get("_sync", {}))
    answer = {"key": envelope["key"], **told}
    if not answer.get("replayed", True):
        del answer["replayed"]
    if told.get("status") in ("applied", "noop", "partial"):
        answer["result"] = {name: value for name, value in body.items() if name != "_sync"}
    else:
        for name in ("code", "path", "conflict", "expected", "result"):
            if name in body:
                answer[name] = _field(body[name], envelope, shape) if name == "path" else body[name]
    if not answer.get("result", True):
        del answer["result"]
    return answer


def _checked(status, fields, answer):
    """The HTTP status says what the answer says; a retry says when."""
    if status == 503 and "status" not in answer and int(fields.get("retry-after", 0)) >= 1:
        # Not judged at all: the hub does not know at the moment whose tokens are revoked.
        answer = {"key": answer["key"], "status": "retry", "code": "unavailable"}
    wanted = {"applied": [200], "noop": [200], "partial": [200], "conflict": [409], "rejected": [422],
              "retry": [429, 503]}.get(answer.get("status"))
    if wanted is None or status not in wanted:
        raise Unanswered(f"HTTP {status}: {answer}")
    if answer["status"] == "retry":
        if int(fields.get("retry-after", 0)) < 1:
            raise Unanswered(f"HTTP {status} without Retry-After: {answer}")
        answer.setdefault("afterMs", int(fields["retry-after"]) * 1000)
    return answer
