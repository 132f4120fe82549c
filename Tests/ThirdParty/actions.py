"""Actions as an app's clients send them: on a socket, and by HTTP."""

import datetime
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid

from device import Device
from names import stream
from waiting import PATIENCE, eventually


def envelope(kind, payload, key=None, **more):
    return {"v": 1, "key": key or str(uuid.uuid4()), "type": kind, "payload": payload, **more}


def plain(kind, payload, key=None, **more):
    """An action as the seeds' `useAdherenceAction` builds it."""
    return {"idempotencyKey": key or str(uuid.uuid4()), "actionType": kind, "payload": payload, **more}


def add_dose(hub, user, hours=0, **columns):
    """A dose scheduled that many hours from now, its window an hour long; its id."""
    names = "".join(f", {name}" for name in columns)
    markers = ", %s" * len(columns)
    (identity,), = hub.query(
        "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end" + names + ")"
        " select %s, 'zinc', t, t + interval '1 hour'" + markers +
        " from (select now() + make_interval(hours => %s) as t) as its returning id",
        [user, *columns.values(), hours])
    return identity


def row(hub, dose):
    """Status and note of a dose, from the table."""
    return hub.query("select status, note from care.dose_occurrence where id = %s", [dose])[0]


class Answer:
    """An HTTP answer, with JSON in it where the hub could read the request."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = json.loads(body) if headers.get_content_type() == "application/json" else body.decode()

    def __repr__(self):
        return f"{self.status} {self.body}"


class Caller:
    """A REST client of one user."""

    def __init__(self, hub, user, token=None):
        self.hub = hub
        self.user = user
        self.token = hub.token(user) if token is None else token

    def post(self, body, route="actions", user=None, **headers):
        """One request, its answer whatever the status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask(route, user, data, {"Content-Type": "application/json", **headers})

    def get(self, route):
        """A snapshot, once the hub can read it."""
        return eventually(
            lambda: next((answer for answer in [self._ask(route)] if answer.status != 503), None), "a snapshot")

    def _ask(self, route, user=None, data=None, headers=None):
        name = urllib.parse.quote(user or self.user, safe="")
        path = route if route.startswith("/") else f"/users/{name}/adherence/{route}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.hub.port}{path}", data=data, headers=headers or {})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def settle(self, body, route="actions", **headers):
        """Asks again while the answer is a `retry` of a hub that has just started, as clients do."""
        answer = None

        def is_settled():
            nonlocal answer
            answer = self.post(body, route, **headers)
            return answer.status not in (429, 503) or answer.body.get("code") == "out_of_order"

        eventually(is_settled, "an answer that is no retry")
        return answer


def act(device, action):
    """Sends an action on a socket, again while it is told to retry; its result."""
    result = None

    def is_settled():
        nonlocal result
        start = device.count()
        device.send("sync:action", action)
        result = device.wait_for(
            lambda frame: frame.event == "sync:result" and frame.data["key"] == action["key"],
            f"the result of {action}", start=start).data
        return result["status"] != "retry" or result["code"] == "out_of_order"

    eventually(is_settled, f"an answer to {action} that is no retry")
    return result


def joined(hub, user):
    """A device of the user's, in the stream of doses."""
    device = Device(hub, token=hub.token(user))
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    return device


def offset(hub, user):
    """How far that stream is, by the table."""
    (top,), = hub.query(
        "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'adherence'", [user])
    return top


def stamp(hours=0):
    """An instant that many hours from now, as JavaScript writes it."""
    then = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03}Z"


def same_instant(one, other):
    """Whether two texts name one instant."""
    return datetime.datetime.fromisoformat(one) == datetime.datetime.fromisoformat(other)
