"""Devices that pushes go to: registered by HTTP and on the socket, and what is due for them; pushes by hand."""

import hashlib
import hmac
import http.client
import json
import time
import uuid
from urllib.parse import urlencode

import pytest
from actions import act, envelope, plain
from device import Device
from hub import APP_KEY, APP_SECRET
from names import stream
from test_medications import Rest
from waiting import PATIENCE, eventually


@pytest.fixture
def rest(hub, user):
    return Rest(hub, user)


def notify(hub, body, secret=None, ago=0):
    """`POST /webhooks/notify`, signed by the app's backend as calls of Pusher's API are."""
    data = json.dumps(body).encode()
    parameters = {"auth_key": APP_KEY, "auth_timestamp": str(int(time.time()) - ago), "auth_version": "1.0",
                  "body_md5": hashlib.md5(data).hexdigest()}
    text = f"POST\n/webhooks/notify\n{'&'.join(f'{name}={value}' for name, value in sorted(parameters.items()))}"
    parameters["auth_signature"] = hmac.new((secret or APP_SECRET).encode(), text.encode(), hashlib.sha256).hexdigest()
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE)
    try:
        connection.request("POST", f"/webhooks/notify?{urlencode(parameters)}", body=data,
                           headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def devices(hub, user):
    return hub.query("select device_id, platform, token, permission from care.device where user_id = %s"
                     " order by device_id", [user])


def test_devices_register_and_go(hub, user, rest):
    answer = rest.ask("PUT", "devices/phone", {"platform": "apns", "token": "0a", "environment": "sandbox",
                                               "topic": "com.example.app", "permission": "granted"})
    assert answer.status == 200 and answer.body["deviceId"] == "phone" and "token" not in answer.body
    assert rest.ask("PUT", "devices/phone", {
        "platform": "apns", "token": "0b", "topic": "com.example.app"}).status == 200
    with Device(hub, token=hub.token(user)) as device:
        result = act(device, envelope("registerDevice", {
            "deviceId": "tablet", "platform": "fcm", "token": "three", "permission": "denied"}))
        assert result["status"] == "applied" and stream(user, "reminders") in result["positions"]
        assert devices(hub, user) == [("phone", "apns", "0b", None), ("tablet", "fcm", "three", "denied")]
        assert act(device, envelope("removeDevice", {"deviceId": "tablet"}))["status"] == "applied"
    for body, path in (({"platform": "pigeon", "token": "two"}, "platform"),
                       ({"platform": "apns", "token": "two", "topic": "com.example.app"}, "token"),
                       ({"platform": "apns", "token": "0c"}, "topic")):
        refused = rest.ask("PUT", "devices/phone", body)
        assert refused.status == 422 and refused.body["path"] == path
    assert rest.ask("DELETE", "devices/phone").status == 200 and devices(hub, user) == []


def test_a_due_reminder_enters_the_outbox_once(hub, user, rest):
    rest.ask("PUT", "devices/phone", {"platform": "webhook", "token": "four"})
    rule = f"rule-{uuid.uuid4()}"
    hub.query("insert into care.reminder_rule (id, user_id, time, timezone, delivery)"
              " select %s, %s, (now() at time zone 'UTC' + interval '2 seconds')::time, 'UTC', 'push'", [rule, user])
    found = "select count(*), count(distinct occurrence_id) from care.push where rule_id = %s"
    eventually(lambda: hub.query(found, [rule]) == [(1, 1)], "a push in the outbox")
    (is_ahead, told), = hub.query(
        "select d.due_at > now() + interval '1 hour', (select count(*) from sync.event where user_id = %s and topic ="
        " 'reminders' and name = 'reminder.updated') from care.reminder_due as d where d.rule_id = %s", [user, rule])
    assert is_ahead and told == 0 and hub.query(found, [rule]) == [(1, 1)]


def test_pushes_by_hand_are_signed_by_the_app(hub, user, rest):
    rest.ask("PUT", "devices/phone", {"platform": "webhook", "token": "five"})
    body = {"userId": user, "idempotencyKey": str(uuid.uuid4()), "title": "Hello", "body": "Bring the card."}
    status, answer = notify(hub, body)
    assert status == 200 and answer["pushes"] == 1
    # Signed anew: the hub may refuse a signature that it has seen.
    assert notify(hub, body, ago=5)[1]["_sync"]["replayed"] is True
    assert hub.query("select title, body, kind from care.push where user_id = %s", [user]) == [
        ("Hello", "Bring the card.", "notify")]
    assert notify(hub, body, secret="wrong")[0] == 401


def test_a_user_sends_no_push_by_hand(hub, user, rest):
    rest.ask("PUT", "devices/phone", {"platform": "webhook", "token": "six"})
    notice = {"title": "Hello", "body": "Send money."}
    with Device(hub, token=hub.token(user)) as device:
        result = act(device, envelope("notify", notice))
        assert (result["status"], result["code"]) == ("rejected", "forbidden")
    refused = rest.ask("POST", "adherence/actions", plain("notify", notice))
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    assert hub.query("select count(*) from care.push where user_id = %s", [user]) == [(0,)]


def test_two_people_may_share_a_number(hub, user, rest):
    other = Rest(hub, f"{user}-other")
    for one in (rest, other):
        assert one.ask("PUT", "devices/phone", {"platform": "webhook", "token": "+491"}).status == 200
    assert devices(hub, user) == devices(hub, f"{user}-other") == [("phone", "webhook", "+491", None)]
