"""Hubs without a database, as a team has them that comes from Pusher: apps, their backends, and members of channels."""

import contextlib
import hashlib
import hmac
import http.client
import itertools
import json
import pathlib
import random
import signal
import socket
import tempfile
import time
from urllib.parse import urlencode

import pusher
import pytest

import redis_server
from device import Device
from hub import APP_KEY, APP_SECRET, Server
from waiting import PATIENCE, eventually

#: Any key to the channels of end-to-end encryption; the hub never has it.
MASTER_KEY = "ZUhQVldIZzduRkdZVkJzS2pPRkRYV1JyaWJJUjJiMGI="

#: All that Pusher has switches for.
EVERYTHING = {"clientEvents": True, "subscriptionCounts": True, "watchlists": True}


class Application:
    """An app as the hub's configuration has it; `members` beside id, key and secret are those of its JSON."""

    def __init__(self, identity="1", key=APP_KEY, secret=APP_SECRET, **members):
        self.id, self.key, self.secret, self.members = identity, key, secret, members

    def setting(self):
        return {"id": self.id, "key": self.key, "secret": self.secret, **self.members}

    def backend(self, hub=None, secret=None):
        """Pusher's own library, as this app's backend would have it."""
        return pusher.Pusher(app_id=self.id, key=self.key, secret=secret or self.secret, host="127.0.0.1",
                             port=hub.port if hub else 1, ssl=False, timeout=PATIENCE,
                             encryption_master_key_base64=MASTER_KEY)


#: The channel of one signed-in user begins so.
SERVER_TO_USER = "#server-to-user-"

#: The app of tests that need no other.
APP = Application(**EVERYTHING)


#: Fixtures with these parameters have their tests run on one hub, and on two that share their channels.
HUBS = [pytest.param({}, id="one"), *(
    pytest.param({"hubs": 2, "by": name}, id=f"two by {name}") for name in redis_server.PROGRAMS)]


class PlainHub(Server):
    """`carillon serve` without a database, configured by a file; `settings` are dotted names with `_` for each dot.

    With several `hubs` by Redis, each connection is at another one than that before.
    """

    _ROOM = {"CARILLON_LIMITS_CONNECTS_PER_SECOND": "100000", "CARILLON_LIMITS_CONNECTIONS_PER_ADDRESS": "100000"}

    def __init__(self, *apps, loops=3, hubs=1, by="redis", environment=None, **settings):
        self._folder = tempfile.TemporaryDirectory(prefix="judge-")
        self.file = pathlib.Path(self._folder.name) / "carillon.json"
        self.apps = apps or (APP,)
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._write()
        environment = {"CARILLON_CONFIG": str(self.file), "CARILLON_LOG_FORMAT": "json", "CARILLON_LOOPS": str(loops),
                       **self._ROOM, **(environment or {})}
        if hubs > 1:
            environment |= {"CARILLON_REDIS_URL": redis_server.shared(by).url,
                            "CARILLON_REDIS_NAME": self._folder.name.rpartition("-")[2]}
        super().__init__(**environment)
        self._others = [Server(**environment) for _ in range(hubs - 1)]
        self._turns = itertools.cycle([super(), *self._others])

    def __enter__(self):
        super().__enter__()
        for other in self._others:
            other.__enter__()
        for one in (self, *self._others) if self._others else ():
            one.program.err.wait_for(lambda line: '"ready"' in line, "ready, in the log")
        return self

    def __exit__(self, *failure):
        for other in self._others:
            other.__exit__(*failure)
        super().__exit__(*failure)
        self._folder.cleanup()

    @property
    def port(self):
        return next(self._turns).port

    def _write(self):
        self.file.write_text(json.dumps({**self._settings, "apps": [app.setting() for app in self.apps]}))
        self.file.chmod(0o600)

    def hang_up(self):
        """SIGHUP; returns what the log says of it, as far as it is about apps."""
        seen = len(self.program.err.lines)
        self.program.process.send_signal(signal.SIGHUP)
        return self.program.err.wait_for(
            lambda line: line in self.program.err.lines[seen:] and "apps" in line, "a word about the apps")

    def reload(self, *apps):
        """Puts these apps into the configuration, and has it read."""
        self.apps = apps
        self._write()
        return self.hang_up()

    @property
    def pid(self):
        return self.program.pid

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the hub's process is gone")


class Member(Device):
    """A device whose signatures its app's backend makes."""

    def __init__(self, hub, app=None, **options):
        self.app = app or hub.apps[0]
        self.backend = self.app.backend()
        self._hub = hub
        super().__init__(hub, key=self.app.key, **options)

    def ask_for(self, channel, user=None, info=None):
        """Subscribes with the signature that the kind of channel needs; `user` is who it is on a presence channel."""
        more = {}
        if user is not None:
            data = {"user_id": user} if info is None else {"user_id": user, "user_info": info}
            more = self.backend.authenticate(channel, self.socket_id, data)
        elif channel.startswith(("private-", "presence-")):
            more = self.backend.authenticate(channel, self.socket_id)
        # Goes to the client beside the hub.
        more.pop("shared_secret", None)
        self.subscribe(channel, **more)

    def join(self, channel, user=None, info=None):
        """Subscribes; returns the acknowledgement."""
        start = self.count()
        self.ask_for(channel, user, info)
        return self.subscribed(channel, start=start)

    def ask_with(self, channel, data):
        """Subscribes with `channel_data` that is this text, byte for byte, rightly signed."""
        text = f"{self.socket_id}:{channel}:{data}"
        signature = hmac.new(self.app.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        self.subscribe(channel, auth=f"{self.app.key}:{signature}", channel_data=data)

    def sign_in_as(self, user, **more):
        self.send("pusher:signin", self.backend.authenticate_user(self.socket_id, {"id": user, **more}))
        return self.signed_in()

    def trigger(self, channel, event, data):
        """A client event."""
        self.send(event, data, channel=channel)

    def end(self, code):
        """The client closes with that code, and the hub has answered."""
        self._socket.close(code)

    def drop(self):
        """The connection ends without a word, as a phone's does."""
        self._socket.socket.shutdown(socket.SHUT_RDWR)

    def heard(self, event, channel=None):
        """The messages so far."""
        return [frame for frame in list(self.frames)
                if frame.event == event and (channel is None or frame.channel == channel)]

    def caught_up(self, channel):
        """Waits for a message published now: it comes behind all earlier ones of the channel."""
        marker, backend = f"marker-{random.SystemRandom().randrange(1 << 40):x}", self.app.backend(self._hub)
        if channel.startswith(SERVER_TO_USER):
            backend.send_to_user(channel.removeprefix(SERVER_TO_USER), marker, {})
        else:
            backend.trigger(channel, marker, {})
        return self.wait_for_event(marker, channel)

    def eventually_heard(self, event, channel, count):
        return eventually(lambda: len(found := self.heard(event, channel)) >= count and found,
                          f"{count} of {event} on {channel}; heard {self.frames}")


class Caller:
    """The HTTP API by hand, for what Pusher's library has not or would never send. Keeps its connection."""

    def __init__(self, hub, app=None, timeout=PATIENCE):
        self.app = app or hub.apps[0]
        self._connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()

    def signed(self, method, path, query=None, body=b"", secret=None, signed_path=None, **changes):
        """The target of a signed request. `changes` replace what the signature covers; None takes it away."""
        parameters = {"auth_key": self.app.key, "auth_timestamp": str(int(time.time())), "auth_version": "1.0",
                      **(query or {})}
        if body:
            parameters["body_md5"] = hashlib.md5(body).hexdigest()
        parameters = {name: value for name, value in {**parameters, **changes}.items() if value is not None}
        canonical = "&".join(f"{name}={value}" for name, value in sorted(
            (name.lower(), value) for name, value in parameters.items()))
        text = f"{method}\n{signed_path or path}\n{canonical}"
        key = (secret or self.app.secret).encode()
        parameters["auth_signature"] = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        return f"{path}?{urlencode(parameters)}"

    def send(self, method, target, body=b"", **fields):
        """Any request: status, fields and the JSON that came, and None where it is empty."""
        headers = {"Content-Type": "application/json",
                   **{name.replace("_", "-"): value for name, value in fields.items()}}
        self._connection.request(method, target, body=body or None, headers=headers)
        response = self._connection.getresponse()
        text = response.read()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()},
                      json.loads(text) if text else None)

    def call(self, method, path, body=None, fields=None, **signing):
        """A signed request to a path below the app's; a body other than bytes goes as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        target = self.signed(method, f"/apps/{self.app.id}{path}", body=data, **signing)
        return self.send(method, target, data, **(fields or {}))

    def publish(self, channels, event="e", data="{}", **more):
        """`POST events`; `fields` and what signs beside the body's members."""
        special = {name: more.pop(name) for name in ("fields", "secret") if name in more}
        return self.call("POST", "/events", {"name": event, "channels": channels, "data": data, **more}, **special)

    def get(self, path, **query):
        return self.call("GET", path, query=query)


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def __repr__(self):
        return f"{self.status} {self.body}"

    def refuses(self, status, *words):
        """Expects an error of that status that a program and a person understand."""
        assert self.status == status, self
        assert set(self.body) == {"error", "code"}, self
        assert isinstance(self.body["error"], str) and self.body["error"], self
        assert isinstance(self.body["code"], (str, int)) and self.body["code"], self
        for word in words:
            assert word.lower() in self.body["error"].lower(), (word, self)
        return self


@contextlib.contextmanager
def members(hub, count, **options):
    """That many members, connected."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Member(hub, **options)) for _ in range(count)]


def facts(hub, channel, *attributes, app=None):
    """What the HTTP API says of a channel."""
    return (app or hub.apps[0]).backend(hub).channel_info(channel, list(attributes))


def subscribers(hub, channel):
    """How many connections are in an occupied channel, by the HTTP API."""
    return facts(hub, channel, "subscription_count").get("subscription_count", 0)


def occupied(hub, prefix=None, app=None):
    """The names of the occupied channels, by the HTTP API."""
    return set((app or hub.apps[0]).backend(hub).channels_info(prefix)["channels"])
