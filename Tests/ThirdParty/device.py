"""A device: a Pusher client on the `websockets` package, with a memory of all that it ever received."""

import contextlib
import json
import threading

import pusher
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from hub import APP_KEY, APP_SECRET
from waiting import PATIENCE

#: Pusher's own server library makes all signatures.
BACKEND = pusher.Pusher(app_id="1", key=APP_KEY, secret=APP_SECRET, host="127.0.0.1", port=1, ssl=False)


class Frame:
    """One message of the hub's: its text, and what it says."""

    def __init__(self, text):
        self.text = text
        message = json.loads(text)
        self.event = message["event"]
        self.channel = message.get("channel")
        self.raw_data = message.get("data")
        self.data = self._meaning()

    def _meaning(self):
        """The value of a text that is JSON, as pusher-js reads it."""
        if not isinstance(self.raw_data, str):
            return self.raw_data
        try:
            return json.loads(self.raw_data)
        except ValueError:
            return self.raw_data

    def __repr__(self):
        return self.text


class Device:
    """Connects at once; reads on a thread of its own."""

    def __init__(self, hub, key=APP_KEY, query="?protocol=7&client=judge&version=1", token=None, origin=None,
                 **options):
        """`options` go to `websockets`: compression, extensions …"""
        headers = {"Authorization": f"Bearer {token}"} if token else None
        self._open = contextlib.ExitStack()
        self._socket = self._open.enter_context(connect(
            f"ws://127.0.0.1:{hub.port}/app/{key}{query}", additional_headers=headers, origin=origin,
            **{"compression": None, "ping_interval": None, "max_size": None, "open_timeout": PATIENCE,
               "close_timeout": 2, "proxy": None, **options}))
        self.frames = []
        self.close_code = None
        self.close_reason = None
        self.is_open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._open.close()
        self._thread.join(PATIENCE)

    def _read(self):
        try:
            for text in self._socket:
                frame = Frame(text)
                with self._changed:
                    self.frames.append(frame)
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self.close_code, self.close_reason = self._socket.close_code, self._socket.close_reason
                self.is_open = False
                self._changed.notify_all()

    # What it says.

    def send(self, event, data=None, **more):
        self._socket.send(json.dumps({"event": event, "data": {} if data is None else data, **more}))

    def send_text(self, text):
        self._socket.send(text)

    def subscribe(self, channel, **more):
        self.send("pusher:subscribe", {"channel": channel, **more})

    def unsubscribe(self, channel):
        self.send("pusher:unsubscribe", {"channel": channel})

    def subscribe_signed(self, channel):
        """Subscribes with a signature by the app's backend."""
        self.subscribe(channel, **BACKEND.authenticate(channel, self.socket_id))

    @property
    def extensions(self):
        """The extensions agreed with the hub, as `websockets` tells them."""
        return self._socket.protocol.extensions

    def sign_in(self, user):
        """`pusher:signin`, signed by the app's backend."""
        self.send("pusher:signin", BACKEND.authenticate_user(self.socket_id, {"id": user}))

    def authenticate(self, token):
        self.send("sync:auth", {"token": token})

    # What it hears.

    def wait_for(self, predicate, what, timeout=PATIENCE, start=0):
        """The first frame from number `start` that fits, now or later."""
        def found():
            return next((frame for frame in self.frames[start:] if predicate(frame)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or not self.is_open, timeout)
            frame = found()
            tail = "\n".join(frame.text for frame in self.frames[-20:])
        assert frame is not None, f"never received: {what}; close code {self.close_code}, last frames:\n{tail}"
        return frame

    def wait_for_event(self, event, channel=None, timeout=PATIENCE, start=0):
        return self.wait_for(
            lambda frame: frame.event == event and (channel is None or frame.channel == channel),
            f"{event} on {channel}", timeout, start)

    def subscribed(self, channel, timeout=PATIENCE, start=0):
        """The acknowledgement of a subscribe; fails at once when it is refused."""
        frame = self.wait_for(
            lambda frame: frame.channel == channel
            and frame.event in ("pusher_internal:subscription_succeeded", "pusher:subscription_error"),
            f"an answer to the subscribe to {channel}", timeout, start)
        assert frame.event == "pusher_internal:subscription_succeeded", frame.text
        return frame

    def refused(self, channel, timeout=PATIENCE, start=0):
        frame = self.wait_for(
            lambda frame: frame.channel == channel
            and frame.event in ("pusher_internal:subscription_succeeded", "pusher:subscription_error"),
            f"an answer to the subscribe to {channel}", timeout, start)
        assert frame.event == "pusher:subscription_error", frame.text
        return frame

    def signed_in(self):
        return self.wait_for_event("pusher:signin_success")

    def authenticated(self):
        return self.wait_for_event("sync:auth_ok")

    def complaint(self, start=0):
        """A `pusher:error`."""
        return self.wait_for_event("pusher:error", start=start)

    def closed(self, timeout=PATIENCE):
        """Waits for the hub to close; its code."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self.is_open, timeout), "the hub did not close the connection"
        return self.close_code

    def answered(self):
        """A round trip: the connection's loop has handled whatever was sent before, because messages of one
        connection are in order. A message by a channel's shard may still be on its way: see
        `Member.caught_up`."""
        start = self.count()
        self.send("pusher:ping")
        return self.wait_for_event("pusher:pong", start=start)

    def count(self):
        with self._changed:
            return len(self.frames)

    @property
    def socket_id(self):
        return self.wait_for_event("pusher:connection_established").data["socket_id"]

    def events(self, channel):
        """The events of a stream so far, without the frames about the subscription."""
        with self._changed:
            return [frame for frame in self.frames if frame.channel == channel and not frame.event.startswith("pusher")]

    def everything(self):
        """All bytes ever received, as text."""
        with self._changed:
            return "\n".join(frame.text for frame in self.frames)
