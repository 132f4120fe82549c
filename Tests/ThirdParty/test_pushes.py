"""Pushes, at real HTTP/2 servers that answer as APNs and FCM do, errors included; and the hub killed between any two
steps."""

import json
import random
import re
import threading
import urllib.request

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certificates import Certificate
from hub import APP_KEY, APP_SECRET
from plain import Application
from providers import CUT, GOAWAY, HOLD, KEY_ID, RESET, TEAM_ID, Answer, Apple, Google, complaint, refusal
from receiver import Receiver
from stage import Stage
from storm import new_seed
from waiting import eventually

APP = Application("1", APP_KEY, APP_SECRET)

#: What no log, no metric and no error may hold.
SECRET = "quite-secret"


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


class Scene:
    """A hub, its providers, and its database."""

    def __init__(self, stage, apple, google, receiver):
        self.stage, self.hub, self.apple, self.google, self.receiver = stage, stage.hubs[0], apple, google, receiver

    def device(self, user, platform="apns", token="00aa", device="phone", registered="sync.clock()"):
        """A device that was registered then."""
        self.stage.query(
            "insert into care.device (user_id, device_id, platform, token, environment, topic, registered_at)"
            f" values (%s, %s, %s, %s, 'production', 'org.example.app', {registered})", [user, device, platform, token])

    def push(self, user, occurrence, device="phone", **columns):
        """A push by hand that is due now. Kind `notify`: it is of no rule."""
        columns = {"title": "Hello", "body": "Your doctor has written.", **columns}
        self.stage.query(
            "insert into care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at,"
            " title, body) values (%s, %s, 'notify', %s, sync.clock(), sync.clock() + interval '1 hour', sync.clock(),"
            " sync.clock(), %s, %s)", [user, device, occurrence, columns["title"], columns["body"]])

    def state(self, occurrence):
        rows = self.stage.query("select state from care.push where occurrence_id = %s", [occurrence])
        return rows[0][0] if rows else None

    def becomes(self, occurrence, state):
        eventually(lambda: self.state(occurrence) == state, lambda: f"{occurrence} is {state}, not {self.state(occurrence)}")

    def has_device(self, user):
        return self.stage.query("select count(*) from care.device where user_id = %s", [user]) == [(1,)]

    def hurry(self):
        """Short pauses end. Leases do not: a push that two claims have would be our own doing."""
        self.stage.query("update care.push set next_at = sync.clock() where state = 'waiting'"
                         " and next_at < sync.clock() + interval '20 seconds'")

    def restart(self):
        """The hub begins another life, when the leases of the one before have ended."""
        assert not self.hub.is_running
        self.stage.query("update care.push set next_at = sync.clock(), leased_until = null where state = 'waiting'")
        self.hub.start()

    def metrics(self):
        listening = next(line for line in self.hub.program.err.text().splitlines() if '"listening"' in line)
        url = f"http://{json.loads(listening)['operations']}/metrics"
        return urllib.request.urlopen(url).read().decode()

    def counted(self, series):
        found = re.search(rf"^carillon_{re.escape(series)} (\S+)$", self.metrics(), re.M)
        return float(found[1]) if found else 0


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("providers")
    certificate = Certificate(folder, "provider", "localhost", "fcm.localhost")
    apple_key, google_key = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
    (folder / "AuthKey.p8").write_text(pem(apple_key))
    with Apple(certificate, apple_key.public_key()) as apple, Google(certificate, google_key.public_key()) as google, \
            Receiver(APP) as receiver:
        (folder / "account.json").write_text(json.dumps({
            "type": "service_account", "project_id": "project-1", "private_key_id": "key-1",
            "client_email": "carillon@project-1.example.org", "private_key": pem(google_key),
            "token_uri": f"{google.origin}/token", "universe_domain": google.origin.removeprefix("https://")}))
        settings = {
            "CARILLON_PUSH_APNS_KEY": f"{KEY_ID}:{TEAM_ID}:{folder}/AuthKey.p8", "CARILLON_PUSH_APNS_URL": apple.origin,
            "CARILLON_PUSH_FCM_KEY_FILE": str(folder / "account.json"),
            "CARILLON_PUSH_WEBHOOK_URL": receiver.url("/sms"),
            "CARILLON_WEBHOOKS_CA_FILE": str(certificate.certificate),
            # No proxy of the environment is used: nobody listens there.
            "HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1",
            "http_proxy": "http://127.0.0.1:1", "NO_PROXY": "", "no_proxy": ""}
        with Stage(settings=settings) as stage:
            yield Scene(stage, apple, google, receiver)


@pytest.fixture(autouse=True)
def calm(scene):
    """Each test begins with a hub that runs, and providers that accept all."""
    if not scene.hub.is_running:
        scene.hub.start()
    scene.apple.judge = scene.google.judge = lambda token, request: None
    scene.receiver.answer = lambda hook: 200
    scene.apple.speaks.set()
    yield
    scene.stage.query("delete from care.push")
    scene.stage.query("delete from care.device")


def test_each_provider_is_told_in_its_way(scene):
    for platform, token in (("apns", "00aa"), ("fcm", "fcm:token"), ("webhook", "+49 1")):
        scene.device("ada", platform, token, device=platform)
        scene.push("ada", f"all-{platform}", device=platform, title=None, body=None)
    for platform in ("apns", "fcm", "webhook"):
        scene.becomes(f"all-{platform}", "sent")
    (request,), (message,) = scene.apple.of("all-apns"), scene.google.of("all-fcm")
    fields = request.fields
    assert fields["apns-push-type"] == "alert" and fields["apns-priority"] == "10"
    assert fields["apns-topic"] == "org.example.app" and request.path == "/3/device/00aa"
    (expires,), = scene.stage.query(
        "select extract(epoch from expires_at)::bigint from care.push where occurrence_id = 'all-apns'")
    assert abs(int(fields["apns-expiration"]) - expires) <= 1
    neutral = {"title": "Reminder", "body": "It is time for your reminder."}
    assert request.json["aps"]["alert"] == neutral
    data = request.json["carillon"]
    assert data["channel"] == "private-user.ada.reminders" and data["occurrenceId"] == "all-apns"
    (epoch, top), = scene.stage.query("select epoch, top from sync.positions('{ada}', '{reminders}')")
    assert (data["epoch"], data["offset"]) == (epoch, str(top))
    assert message.json["message"]["notification"] == neutral and message.json["message"]["token"] == "fcm:token"
    assert message.json["message"]["data"]["epoch"] == epoch
    hook = next(hook for hook in scene.receiver.hooks if b"all-webhook" in hook.body)
    event, = hook.validated(APP)["events"]
    assert event["name"] == "push" and event["token"] == "+49 1" and event["title"] == "Reminder"
    assert hook.path == "/sms" and scene.counted('push_deliveries_total{platform="apns",result="sent"}') >= 1


def test_answers_of_apns(scene):
    """By device token: what APNs answers, what becomes of the push, and whether the device keeps its token."""
    cases = {
        "01": (refusal(400, "BadDeviceToken"), "dead", False),
        "02": (refusal(400, "DeviceTokenNotForTopic"), "dead", False),
        "03": (refusal(410, "Unregistered", timestamp=4_000_000_000_000), "dead", False),
        # Of the app's life before this token.
        "04": (refusal(410, "Unregistered", timestamp=1_000_000_000_000), "dead", True),
        "05": (refusal(413, "PayloadTooLarge"), "dead", True),
        "06": (refusal(400, "MissingTopic"), "dead", True),
        "07": (Answer(400, "in their words"), "dead", True),
        "08": (refusal(429, "TooManyRequests", ("retry-after", "1")), "sent", True),
        "09": (refusal(503, "ServiceUnavailable"), "sent", True),
        "0a": (refusal(500, "InternalServerError"), "sent", True),
        "0b": (refusal(503, "Shutdown", ("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")), "sent", True),
        "0c": (RESET, "sent", True),
        "0d": (CUT, "sent", True),
    }
    seen = set()

    def judge(token, request):
        if token in seen:
            return None
        seen.add(token)
        return cases[token][0]

    scene.apple.judge = judge
    # A connection that is cut takes answers with it that others have not read, and each is judged once: so it comes last.
    cut = [token for token, (answer, _, _) in cases.items() if answer == CUT]
    for tokens in ([token for token in cases if token not in cut], cut):
        for token in tokens:
            scene.device(f"of-{token}", token=token)
            scene.push(f"of-{token}", f"answer-{token}")
        for token in tokens:
            scene.becomes(f"answer-{token}", cases[token][1])
    for token, (_, state, stays) in cases.items():
        eventually(lambda: scene.has_device(f"of-{token}") == stays, f"the device of {token}")
        assert len(scene.apple.of(f"answer-{token}")) >= (2 if state == "sent" else 1)


def test_a_token_that_is_registered_again_meanwhile_stays(scene):
    """The device tells another token while APNs refuses the old one."""
    scene.device("eve", token="0e")

    def judge(token, request):
        if token == "0e":
            scene.stage.query("update care.device set token = '0f', registered_at = sync.clock() where user_id = 'eve'")
            return refusal(400, "BadDeviceToken")

    scene.apple.judge = judge
    scene.push("eve", "renewed")
    scene.becomes("renewed", "sent")
    assert [request.path for request in scene.apple.of("renewed")] == ["/3/device/0e", "/3/device/0f"]


def test_expired_credentials_are_renewed_at_once(scene):
    for number in range(40):
        scene.device(f"many-{number}", token="10" if number % 2 else "fcm", platform="apns" if number % 2 else "fcm")
    scene.device("first", token="10")
    scene.device("second", platform="fcm", token="fcm")
    scene.push("first", "before")
    scene.push("second", "before-too")
    scene.becomes("before", "sent")
    scene.becomes("before-too", "sent")
    bearer = scene.apple.of("before")[0].fields["authorization"]
    scene.apple.expired.add(bearer.partition(" ")[2])
    scene.google.expired.add(scene.google.of("before-too")[0].fields["authorization"])
    tokens = scene.google.tokens
    for number in range(40):
        scene.push(f"many-{number}", f"many-{number}")
    for number in range(40):
        scene.becomes(f"many-{number}", "sent")
    accepted = {request.fields["authorization"] for number in range(1, 40, 2)
                for request in scene.apple.of(f"many-{number}")[-1:]}
    assert len(accepted) == 1 and bearer not in accepted
    assert scene.google.tokens == tokens + 1
    (most,), = scene.stage.query("select max(attempt) from care.push")
    assert most == 1, "sent again at once, not by another claim"


def test_answers_of_fcm(scene):
    cases = {
        "gone": (complaint(404, "NOT_FOUND", "UNREGISTERED"), "dead", False),
        "other-sender": (complaint(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"), "dead", False),
        "bad": (complaint(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"), "dead", True),
        "busy": (complaint(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", ("retry-after", "1")), "sent", True),
        "away": (complaint(503, "UNAVAILABLE", "UNAVAILABLE"), "sent", True),
        "broken": (complaint(500, "INTERNAL", "INTERNAL"), "sent", True),
        "html": (Answer(502, "<html>"), "sent", True),
    }
    seen = set()

    def judge(token, request):
        if token in seen:
            return None
        seen.add(token)
        return cases[token][0]

    scene.google.judge = judge
    for token in cases:
        scene.device(f"fcm-{token}", "fcm", token)
        scene.push(f"fcm-{token}", f"fcm-{token}")
    for token, (_, state, stays) in cases.items():
        scene.becomes(f"fcm-{token}", state)
        eventually(lambda: scene.has_device(f"fcm-{token}") == stays, f"the device of {token}")


def test_redirects_are_not_followed(scene):
    away = Answer(302, "", (("location", f"{scene.apple.origin}/3/device/ff"),))
    scene.apple.judge = lambda token, request: away if token == "11" else None
    scene.receiver.answer = lambda hook: 302 if b"+11" in hook.body else 200
    scene.device("fay", token="11")
    scene.device("gus", "webhook", "+11")
    scene.push("fay", "away")
    scene.push("gus", "away-too")
    eventually(lambda: scene.stage.query(
        "select count(*) from care.push where attempt = 1 and state = 'waiting' and next_at > sync.clock() +"
        " interval '40 seconds'") == [(2,)], "both wait for the operator")
    assert not [request for request in scene.apple.requests if request.path.endswith("/ff")]
    assert not [hook for hook in scene.receiver.hooks if hook.path == "/elsewhere"]
    scene.apple.judge = lambda token, request: None
    scene.receiver.answer = lambda hook: 200
    scene.stage.query("update care.push set next_at = sync.clock()")
    scene.becomes("away", "sent")
    scene.becomes("away-too", "sent")


def test_goodbyes_and_cuts_lose_nothing(scene):
    """Some requests end their connection, in one way or the other, with all that share it."""
    dice, lock = random.Random(7), threading.Lock()

    def judge(token, request):
        with lock:
            return dice.choice([CUT, GOAWAY, RESET]) if dice.random() < 0.03 else None

    for number in range(200):
        scene.device(f"crowd-{number}", token="12")
    before, counted = scene.apple.connections, len(scene.apple.requests)
    scene.apple.judge = judge
    scene.stage.query(
        "insert into care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at)"
        " select 'crowd-' || n, 'phone', 'notify', 'crowd-' || n, sync.clock(), sync.clock() + interval '1 hour',"
        " sync.clock(), sync.clock() from generate_series(0, 199) as n")

    def all_sent():
        scene.hurry()
        return scene.stage.query("select count(*) from care.push where state <> 'sent'") == [(0,)]

    eventually(all_sent, "all are sent", 60)
    assert {request.fields["apns-collapse-id"] for request in scene.apple.requests[counted:]} == {
        f"crowd-{number}" for number in range(200)}
    # Far fewer than requests: they share connections.
    assert 1 < scene.apple.connections - before < 100


def test_the_hub_killed_between_any_two_steps(scene):
    """Each occurrence is sent at least once; twice where its answer was lost, under one collapse id."""
    for number in range(4):
        scene.device(f"step-{number}", token="13")

    # Claimed, and nothing sent: APNs takes connections and says nothing. The shared ones end first.
    scene.hub.kill()
    scene.hub.start()
    scene.apple.speaks.clear()
    scene.push("step-0", "claimed")
    eventually(lambda: scene.stage.query(
        "select attempt from care.push where occurrence_id = 'claimed'") == [(1,)], "it is claimed")
    scene.hub.kill()
    assert not scene.apple.of("claimed")
    scene.apple.speaks.set()
    scene.restart()
    scene.becomes("claimed", "sent")
    assert len(scene.apple.of("claimed")) == 1

    # Sent, and no answer came.
    scene.apple.judge = lambda token, request: HOLD
    scene.push("step-1", "unanswered")
    eventually(lambda: scene.apple.of("unanswered"), "it is sent")
    scene.hub.kill()
    scene.apple.judge = lambda token, request: None
    scene.restart()
    scene.becomes("unanswered", "sent")
    assert len(scene.apple.of("unanswered")) == 2

    # Answered, and not settled: somebody holds the row.
    held = threading.Event()

    def judge(token, request):
        # It is claimed by then, and the claim is committed.
        with_lock.execute("select from care.push where occurrence_id = 'unsettled' for update")
        held.set()

    with scene.stage.database(autocommit=False) as with_lock:
        scene.apple.judge = judge
        scene.push("step-2", "unsettled")
        assert held.wait(30)
        eventually(lambda: scene.counted('push_batches_total{type="settle",result="locked"}') > 0, "it is not settled")
        scene.hub.kill()
        with_lock.rollback()
    scene.apple.judge = lambda token, request: None
    scene.restart()
    scene.becomes("unsettled", "sent")
    assert len(scene.apple.of("unsettled")) == 2

    # Settled.
    scene.push("step-3", "settled")
    scene.becomes("settled", "sent")
    scene.hub.kill()
    scene.restart()
    scene.push("step-0", "behind-it")
    scene.becomes("behind-it", "sent")
    assert len(scene.apple.of("settled")) == 1


def test_a_hub_that_falls_again_and_again(scene):
    """A push is sent again only where an answer was lost, and once for each."""
    seed = new_seed()
    print(f"CARILLON_SEED={seed}")
    dice, lock = random.Random(seed), threading.Lock()
    held = []

    def judge(token, request):
        with lock:
            if dice.random() < 0.2:
                held.append(request)
                return HOLD

    for number in range(60):
        scene.device(f"fall-{number}", token="14")
    scene.apple.judge = judge
    lives = []

    def fall():
        """Ends a life of the hub: its last connection, and what it did not settle."""
        scene.hub.kill()
        waiting = scene.stage.query("select occurrence_id from care.push where state = 'waiting'")
        lives.append((scene.apple.connections, {occurrence for occurrence, in waiting}))

    for life in range(4):
        for number in range(life * 15, life * 15 + 15):
            scene.push(f"fall-{number}", f"fall-{number}")
        seen = len(scene.apple.requests)
        eventually(lambda: len(scene.apple.requests) > seen + dice.randrange(15), "some are sent")
        fall()
        scene.restart()
    fall()
    scene.apple.judge = lambda token, request: None
    scene.restart()
    eventually(lambda: scene.stage.query("select count(*) from care.push where state <> 'sent'") == [(0,)], "all are sent")

    def is_lost(occurrence, request):
        """Whether the hub that made the request never settled what became of it."""
        waiting = next((waiting for last, waiting in lives if request.connection <= last), set())
        return request in held or occurrence in waiting

    for number in range(60):
        occurrence = f"fall-{number}"
        requests = scene.apple.of(occurrence)
        lost = sum(is_lost(occurrence, request) for request in requests)
        assert 1 <= len(requests) <= 1 + lost, (occurrence, len(requests), lost)


def test_a_certificate_that_nobody_trusts_gets_no_push(scene, tmp_path):
    scene.device("kim", token="16")
    with Apple(Certificate(tmp_path, "stranger"), scene.apple.key) as stranger:
        scene.hub.kill()
        scene.hub.use(CARILLON_PUSH_APNS_URL=stranger.origin)
        scene.hub.start()
        try:
            scene.push("kim", "guarded")
            eventually(lambda: scene.counted('push_failures_total{reason="tls"}') > 0, "the handshake fails")
            assert stranger.connections > 0 and not stranger.requests and scene.state("guarded") == "waiting"
        finally:
            scene.hub.kill()
            scene.hub.use(CARILLON_PUSH_APNS_URL=scene.apple.origin)
    scene.restart()
    scene.becomes("guarded", "sent")
    assert len(scene.apple.of("guarded")) == 1


def test_what_is_due_is_fired_and_sent(scene):
    """From the rule to APNs and back: the job fires it, the push names no label, and the occurrence is `sent`."""
    scene.device("hal", token="15")
    scene.stage.query(
        "insert into care.reminder_rule (id, user_id, product_id, label, time, timezone, repeat, delivery) select"
        " 'rule-hal', 'hal', 'zinc', %s, ((sync.clock() at time zone 'UTC') + interval '1 second')::time, 'UTC', 'daily',"
        " 'push'", [f"Zinc {SECRET}"])

    def fired():
        # Beside the hub's own job.
        scene.stage.query("select sync.job('fire_reminders', 100, null)")
        return scene.stage.query("select occurrence_id from care.push where user_id = 'hal' and state = 'sent'")

    (occurrence,), = eventually(fired, "it is fired and sent")
    request, = scene.apple.of(occurrence)
    assert SECRET not in request.body.decode() and request.json["carillon"]["ruleId"] == "rule-hal"
    eventually(lambda: fired() and scene.stage.query(
        "select status from care.reminder_occurrence where rule_id = 'rule-hal'") == [("sent",)], "its status says so")


def test_nothing_of_them_is_logged(scene):
    answers = iter([Answer(400, f"about {SECRET}"), refusal(503, f"about {SECRET}"), CUT])
    scene.apple.judge = lambda token, request: next(answers, None)
    scene.device(f"user-{SECRET}", token="ff00ff00")
    for number in range(4):
        scene.push(f"user-{SECRET}", f"{SECRET}-{number}", title=SECRET, body=SECRET)
    eventually(lambda: scene.hurry() or scene.stage.query(
        "select count(*) from care.push where state in ('sent', 'dead')") == [(4,)], "all are settled")
    log, metrics = scene.hub.program.err.text(), scene.metrics()
    assert "pushes fail" in log
    for text in (log, metrics):
        assert SECRET not in text and "ff00ff00" not in text
