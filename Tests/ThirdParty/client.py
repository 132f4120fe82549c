"""Pysher, unmodified: a client of the Pusher world that knows nothing of this hub."""

import json
import logging
import threading

import pysher

from device import BACKEND
from hub import APP_KEY
from waiting import PATIENCE, eventually


class Client:
    """Pysher with a list of what it heard: its own protocol as it passes by, and what its callbacks got."""

    def __init__(self, hub, secure=False, **options):
        self.pusher = pysher.Pusher(
            APP_KEY, custom_host="127.0.0.1", port=hub.secure_port if secure else hub.port, secure=secure,
            log_level=logging.CRITICAL, reconnect_interval=0.2, daemon=True, **options)
        self.heard = []
        #: Told of each event as it comes, on Pysher's thread.
        self.on_event = lambda event, data, channel: None
        self._connected = threading.Event()
        for event in ("pusher:connection_established", "pusher:error", "pusher:pong", "pusher:signin_success",
                      "sync:auth_ok", "sync:resumed"):
            self.pusher.connection.bind(event, lambda data, event=event: self._hear(event, data))
        self.pusher.connection.bind("pusher:connection_established", lambda _: self._connected.set())
        # Pysher makes a channel after it has sent the subscribe: an answer may be faster, and is taken from here.
        forward = self.pusher.connection.event_handler

        def handle(event, data, channel):
            if event.startswith("pusher"):
                self.heard.append((channel, event, data))
            forward(event, data, channel)
            self.on_event(event, data, channel)

        self.pusher.connection.event_handler = handle

    def _hear(self, event, data):
        self.heard.append((None, event, data))
        self.on_event(event, data, None)

    def __enter__(self):
        self.pusher.connect()
        assert self._connected.wait(PATIENCE), "Pysher did not connect"
        eventually(lambda: self.pusher.connection.state == "connected", "Pysher is connected")
        return self

    def __exit__(self, *_):
        self.pusher.disconnect(timeout=2)

    @property
    def socket_id(self):
        return self.pusher.connection.socket_id

    def send(self, event, data):
        self.pusher.connection.send_event(event, data)

    def sign_in(self, user):
        self.send("pusher:signin", BACKEND.authenticate_user(self.socket_id, {"id": user}))
        self.wait_for(None, "pusher:signin_success")

    def subscribe(self, name, *events, auth=None):
        channel = self.pusher.subscribe(name, auth)
        for event in events:
            channel.bind(event, lambda data, event=event: self.heard.append((name, event, data)))
        return channel

    def events(self, name):
        """The events of a stream so far, as its callbacks got them."""
        return [(kind, json.loads(data)) for channel, kind, data in list(self.heard)
                if channel == name and not kind.startswith("pusher")]

    def count(self, name, event):
        return sum(heard[:2] == (name, event) for heard in list(self.heard))

    def answered(self):
        """A round trip: what the hub sent before has come."""
        pongs = self.count(None, "pusher:pong")
        self.send("pusher:ping", {})
        eventually(lambda: self.count(None, "pusher:pong") > pongs, "a pong")

    def wait_for(self, name, event):
        def found():
            return next((data for channel, kind, data in list(self.heard) if (channel, kind) == (name, event)), None)

        return eventually(lambda: found() is not None and [found()], f"{event} on {name}; heard {self.heard}")[0]

    def subscribed(self, name):
        return self.wait_for(name, "pusher_internal:subscription_succeeded")

    def refused(self, name):
        data = json.loads(self.wait_for(name, "pusher:subscription_error"))
        assert not any(heard[:2] == (name, "pusher_internal:subscription_succeeded") for heard in self.heard)
        return data
