"""Event streams by HTTP: nothing is lost and nothing comes twice, over cuts and kills; and the pages' own code."""

import collections
import http.client
import http.server
import json
import random
import subprocess
import threading

import pytest

from actions import add_dose
from hub import Hub
from pages import PUSHER, SYNC, at, code
from waiting import PATIENCE, eventually
from web import Browser

Message = collections.namedtuple("Message", "event channel data")


class Reader(threading.Thread):
    """Reads a user's stream as WHATWG HTML says. It loses its connection now and then, and comes back with the last id."""

    def __init__(self, hub, user, topics, seed):
        super().__init__(daemon=True)
        self.hub, self.user, self.topics = hub, user, topics
        self.token = hub.token(user)
        self.dice = random.Random(seed)
        self.last_id = None
        self.messages = []
        self.connections = 0
        self.failure = None
        self._is_over = threading.Event()

    def run(self):
        try:
            while not self._is_over.is_set():
                try:
                    self._read()
                except (OSError, http.client.HTTPException):
                    self._is_over.wait(0.02)
        except BaseException as error:
            self.failure = error
            raise

    def stop(self):
        self._is_over.set()
        self.join(PATIENCE)
        assert not self.is_alive() and self.failure is None, self.failure

    def _read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=2)
        try:
            headers = {"Authorization": f"Bearer {self.token}", **({"Last-Event-ID": self.last_id} if self.last_id else {})}
            connection.request("GET", f"/users/{self.user}/events?topics={','.join(self.topics)}", headers=headers)
            answer = connection.getresponse()
            if answer.status == 503:
                return
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"] == "text/event-stream"
            self.connections += 1
            self._take(answer, self.dice.randrange(500, 20_000))
        finally:
            connection.close()

    def _take(self, answer, most):
        """Takes that many bytes, wherever in a line they end: a message that is not whole is dropped."""
        text = b""
        while most > 0 and not self._is_over.is_set():
            try:
                part = answer.read1(min(most, self.dice.randrange(1, 400)))
            except TimeoutError:
                continue
            if not part:
                return
            most -= len(part)
            *blocks, text = (text + part).split(b"\n\n")
            for block in blocks:
                fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
                if "data" in fields:
                    said = json.loads(fields["data"])
                    data = json.loads(said["data"]) if isinstance(said.get("data"), str) else said.get("data")
                    self.messages.append(Message(said["event"], said.get("channel"), data))
                self.last_id = fields.get("id", self.last_id)

    def offsets(self, topic):
        return [message.data["_sync"]["o"] for message in list(self.messages)
                if message.channel == f"user.{self.user}.{topic}" and "_sync" in (message.data or {})]

    def says(self, event):
        return [message for message in list(self.messages) if message.event == event]


def position(hub, user, topic):
    return hub.query("select coalesce(max(o), 0) from sync.event where user_id = %s and topic = %s", [user, topic])[0][0]


def test_nothing_is_lost_and_nothing_comes_twice(record_property):
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    with Hub() as hub:
        hub.wait_until_listening()
        reader = Reader(hub, "ana", ["adherence", "reminders"], seed)
        reader.start()
        eventually(lambda: len(reader.says("pusher_internal:subscription_succeeded")) >= 2, "the reader is in both")

        def write(count):
            for _ in range(count):
                if dice.random() < 0.3:
                    hub.query("insert into care.reminder_rule (user_id, product_id, time) values ('ana', 'zinc', '08:00')")
                else:
                    add_dose(hub, "ana")

        def catches_up(what):
            for topic in reader.topics:
                eventually(lambda topic=topic: (reader.offsets(topic) or [0])[-1] >= position(hub, "ana", topic), what)

        for round_ in range(3):
            write(60)
            if round_ == 2:
                break
            # Its PostgreSQL ends with it. What was committed is committed.
            hub.program.kill()
            hub.start()
            hub.wait_until_listening()
            write(20)
        catches_up("the reader has all")
        reader.stop()
        for topic in reader.topics:
            wanted = list(range(1, position(hub, "ana", topic) + 1))
            assert reader.offsets(topic) == wanted, (seed, topic)
        assert all(one["recovered"] for message in reader.says("sync:resumed") for one in message.data["channels"].values())
        assert reader.connections > 10, "it was cut often enough"
        record_property("report", f"seed {seed}: {reader.connections} connections, {len(reader.messages)} messages")


def test_a_position_that_cannot_be_had_is_told(hub, user):
    reader = Reader(hub, user, ["adherence"], 1)
    reader.last_id = "adherence=of.another.database:7"
    reader.start()
    eventually(lambda: reader.says("sync:resumed"), "the answer to the position")
    told = reader.says("sync:resumed")[0].data["channels"][f"user.{user}.adherence"]
    assert told["recovered"] is False and told["reason"] == "stream_reset"
    # After that it goes on from what it was told.
    eventually(lambda: reader.last_id == f"adherence={told['epoch']}:{told['offset']}", "the id that follows")
    dose = add_dose(hub, user)
    eventually(lambda: [one for one in reader.says("occurrence.created") if one.data["occurrenceId"] == dose], "the dose")
    reader.stop()


@pytest.fixture(scope="module")
def demo():
    with Hub() as running:
        running.wait_until_listening()
        yield running


def listening(command, text):
    """What the shell's command prints, up to that text, or until the time is over."""
    bounded = ["timeout", str(PATIENCE), "bash", "-c", "exec " + command]
    process = subprocess.Popen(bounded, stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            yield line
            if text in line:
                return
    finally:
        # As SIGTERM, `timeout` hands it on.
        process.terminate()
        process.wait()


def test_the_pages_curl_shows_a_users_events(demo):
    block, = code(SYNC, "## Events without a WebSocket", "sh")
    assert "--user demo" in block
    command = at(demo, block.splitlines()[1]).replace("$TOKEN", demo.token("demo"))
    seen = []
    for line in listening(command, "occurrence.created"):
        seen.append(line)
        if "subscription_succeeded" in line:
            add_dose(demo, "demo")
    assert "occurrence.created" in seen[-1] and any(line.startswith("id: adherence=") for line in seen)


def test_the_pages_curl_shows_a_channels_events(demo):
    block, = code(PUSHER, "## Events without a WebSocket", "sh")
    lines = listening(at(demo, block.strip()), "pusher:cache_miss")
    assert any("cache-prices" in line for line in lines)


def test_the_pages_scripts_run_in_a_browser(demo):
    script, = code(SYNC, "## Events without a WebSocket", "js")
    plain, = code(PUSHER, "## Events without a WebSocket", "js")
    with Browser() as browser:
        browser.site.pages["events.html"] = "<!doctype html><script>" + at(demo, script) + "</script>"
        page = browser.chromium.new_context().new_page()
        page.goto(f"{browser.site.address}/client/events.html")
        page.evaluate("""(token) => { globalThis.told = [];
            follow('demo', 'adherence', () => token, (message) => told.push(message.event)); }""", demo.token("demo"))
        told = lambda: page.evaluate("() => told")
        eventually(lambda: "pusher_internal:subscription_succeeded" in told(), "the browser is in")
        dose = add_dose(demo, "demo")
        eventually(lambda: "occurrence.created" in told(), "the browser has the event")
        # Another page goes on where this one was.
        place = "() => localStorage.getItem('demo adherence last-event-id')"
        kept = eventually(lambda: page.evaluate(place), "the id is kept")
        assert kept.startswith("adherence=")
        page.goto("about:blank")
        demo.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
        page.goto(f"{browser.site.address}/client/events.html")
        page.evaluate("""(token) => { globalThis.told = [];
            follow('demo', 'adherence', () => token, (message) => told.push(message.event)); }""", demo.token("demo"))
        eventually(lambda: "occurrence.updated" in told() and "sync:resumed" in told(), "what it missed")
        page.evaluate("globalThis.lines = []; console.log = (line) => lines.push(line);")
        page.add_script_tag(content=at(demo, plain))
        eventually(lambda: "pusher:cache_miss" in page.evaluate("() => lines"), "EventSource reads the channels")


class Front(http.server.ThreadingHTTPServer):
    """A proxy before the hub. While it has failures left, it answers 502, as proxies do where nobody listens."""

    daemon_threads = True

    def __init__(self, hub, failures):
        self.hub, self.failures, self.asked = hub, failures, 0
        super().__init__(("127.0.0.1", 0), Passing)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_port


class Passing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        if self.server.failures > 0:
            self.server.failures -= 1
            return self.send_error(502)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.hub.port)
        connection.request("GET", self.path, headers={"Origin": self.headers["Origin"] or ""})
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name in ("Content-Type", "Access-Control-Allow-Origin"):
            if answer.headers[name]:
                self.send_header(name, answer.headers[name])
        self.end_headers()
        while line := answer.readline():
            self.wfile.write(line)
            self.wfile.flush()

    def log_message(self, *_):
        pass


def test_the_pages_script_opens_its_stream_again_behind_a_proxy(demo):
    """The browser's EventSource gives up after a 502."""
    plain, = code(PUSHER, "## Events without a WebSocket", "js")
    front = Front(demo, failures=2)
    with Browser() as browser:
        browser.site.pages["again.html"] = "<!doctype html>"
        page = browser.chromium.new_context().new_page()
        page.goto(f"{browser.site.address}/client/again.html")
        page.evaluate("globalThis.lines = []; console.log = (line) => lines.push(line);")
        page.add_script_tag(content=at(front, plain))
        eventually(lambda: "pusher:cache_miss" in page.evaluate("() => lines"), "the stream is open after two failures")
        assert front.failures == 0 and front.asked == 3
    front.shutdown()
    front.server_close()
