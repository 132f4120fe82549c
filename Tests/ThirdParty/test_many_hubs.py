"""Hubs that share ordinary channels by Redis, as an operator has them: processes that die, and a Redis that goes away."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import cluster
from certificates import Certificate
from console import Console, ask
from device import Device
from hub import LOADTEST, PROGRAM, Program, Server
from plain import APP, SERVER_TO_USER, Application, Caller, Member, facts, members, subscribers
from redis_server import PROGRAMS, Redis
from waiting import PATIENCE, eventually
from web import Browser

pytestmark = pytest.mark.skipif("redis" not in PROGRAMS, reason="there is no Redis")


class Hub(Server):
    """One of several."""

    apps = (APP,)

    def __init__(self, redis, **settings):
        self.settings = {
            "CARILLON_APPS": json.dumps([APP.setting()]), "CARILLON_LOOPS": "2", "CARILLON_LOG_FORMAT": "json",
            "CARILLON_PRESENCE_LEAVE_GRACE": "500ms", "CARILLON_REDIS_URL": redis.url, **settings}
        super().__init__(**self.settings)

    def ready(self):
        self.program.err.wait_for(lambda line: '"ready"' in line, "ready, in the log")
        return self

    def readiness(self):
        try:
            with urllib.request.urlopen(f"{self.operations}/readyz", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def kill(self):
        self.program.kill()


@contextlib.contextmanager
def group(redis, count, **settings):
    """That many hubs, ready."""
    with contextlib.ExitStack() as stack:
        hubs = [stack.enter_context(Hub(redis, **settings)) for _ in range(count)]
        yield [hub.ready() for hub in hubs]


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def publishes(hub, channel, event="e"):
    """Whether the hub took it; it says when to come again if it did not."""
    with Caller(hub) as caller:
        answer = caller.publish([channel], event)
    if answer.status == 503:
        assert int(answer.fields["retry-after"]) >= 1, answer
        return False
    assert answer.status == 200, answer
    return True


@pytest.mark.parametrize("name", PROGRAMS)
def test_three_hubs_are_one(name):
    with Redis(name=name) as redis, group(redis, 3) as hubs, contextlib.ExitStack() as stack:
        people = [stack.enter_context(Member(hub)) for hub in hubs]
        for number, member in enumerate(people):
            member.join("presence-room", f"user-{number}")
        for hub in hubs:
            assert facts(hub, "presence-room", "user_count", "subscription_count") == {
                "occupied": True, "user_count": 3, "subscription_count": 3}
        for hub in hubs:
            assert publishes(hub, "presence-room", "news")
        for member in people:
            member.eventually_heard("news", "presence-room", 3)
        # What alerts look at.
        with urllib.request.urlopen(f"{hubs[0].operations}/metrics", timeout=PATIENCE) as answer:
            shown = answer.read().decode()
        assert "\ncarillon_redis_connections 2\n" in shown and "\ncarillon_redis_unavailable_total 0\n" in shown, shown
        assert "\ncarillon_redis_hubs 3\n" in shown, shown
        # The last to come heard of nobody else; the first one of both.
        assert [len(member.heard("pusher_internal:member_added")) for member in people] == [2, 1, 0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hub_that_is_killed_leaves_no_ghosts(name):
    with Redis(name=name) as redis, group(redis, 2) as (one, two), Member(two) as watcher:
        watcher.join("presence-room", "watcher")
        for number in range(20):
            Member(one).join("presence-room", f"user-{number}")
        Member(one).join("news")
        assert facts(two, "presence-room", "user_count")["user_count"] == 21
        one.kill()
        watcher.eventually_heard("pusher_internal:member_removed", "presence-room", 20)
        eventually(lambda: not facts(two, "news")["occupied"], "the dead hub's channel is empty")
        assert facts(two, "presence-room", "user_count")["user_count"] == 1
        assert len(watcher.heard("pusher_internal:member_removed")) == 20


def test_a_hub_that_ends_gives_its_people_their_grace(redis):
    with group(redis, 2, CARILLON_PRESENCE_LEAVE_GRACE="5s") as (one, two), Member(two) as watcher:
        watcher.join("presence-room", "watcher")
        Member(one).join("presence-room", "ada")
        one.program.interrupt()
        with Member(two) as ada:
            ada.join("presence-room", "ada")
            watcher.caught_up("presence-room")
            assert not watcher.heard("pusher_internal:member_removed")


@pytest.mark.parametrize("returns", ["as it was", "empty"])
def test_redis_goes_and_comes_back(redis, returns):
    """Nobody is disconnected, and nobody is told that others have left."""
    with group(redis, 2) as hubs, contextlib.ExitStack() as stack:
        people = [stack.enter_context(Member(hub)) for hub in hubs]
        for number, member in enumerate(people):
            member.join("presence-room", f"user-{number}")
        if returns == "empty":
            redis.stop()
            eventually(lambda: not publishes(hubs[0], "presence-room"), "a publish is refused")
            # A hub is ready all the same: users' channels need no Redis.
            assert hubs[0].readiness()[0] == 200
            redis.start()
        else:
            redis.pause(8_000)
            assert not publishes(hubs[0], "presence-room")
        for hub in hubs:
            eventually(lambda: publishes(hub, "presence-room", "back"), "publishes go on")
        for member in people:
            member.eventually_heard("back", "presence-room", 2)
            assert member.is_open and not member.heard("pusher_internal:member_removed")
        for hub in hubs:
            assert facts(hub, "presence-room", "user_count")["user_count"] == 2
        people[0].end(1000)
        people[1].eventually_heard("pusher_internal:member_removed", "presence-room", 1)


@pytest.mark.parametrize("silence", [2, 9])
@pytest.mark.parametrize("gone", [False, True], ids=["silent", "gone"])
def test_a_subscribe_waits_for_redis(redis, silence, gone):
    """pusher-js never repeats a subscribe that was refused. A failover takes five to eight seconds."""
    with group(redis, 2) as (one, two), Member(one) as ada, Member(two) as bob:
        ada.join("presence-room", "ada")
        if gone:
            redis.stop()
            bob.ask_for("presence-room", "bob")
            time.sleep(silence)
            redis.start()
        else:
            redis.pause(1_000 * silence)
            bob.ask_for("presence-room", "bob")
        bob.subscribed("presence-room")
        ada.eventually_heard("pusher_internal:member_added", "presence-room", 1)
        assert not bob.heard("pusher:subscription_error")
        eventually(lambda: facts(one, "presence-room", "user_count")["user_count"] == 2, "both are counted")
        assert not ada.heard("pusher_internal:member_removed")


def test_a_hub_is_not_ready_before_redis_is(redis):
    redis.stop()
    with Hub(redis) as hub:
        hub.program.err.wait_for(lambda line: "Redis: loop" in line and "is down" in line, "what is wrong, in the log")
        assert hub.readiness() == (503, "waiting for Redis\n")
        redis.start()
        hub.ready()
        assert publishes(hub, "news")


@pytest.mark.parametrize("settings, words", [
    (["--maxmemory-policy", "allkeys-lru"], "set maxmemory-policy to noeviction"),
    (["--requirepass", "secret"], "the user or the password is wrong or missing"),
], ids=["eviction", "password"])
def test_what_is_wrong_with_redis_is_said(settings, words):
    with Redis(*settings) as redis, Hub(redis) as hub:
        hub.program.err.wait_for(lambda line: words in line, "what to do, in the log")
        assert hub.readiness()[0] == 503
        assert "secret" not in hub.program.err.text()


def test_the_user_of_the_page_is_enough(redis):
    """The rights that the operator's page gives."""
    redis("ACL", "SETUSER", "hub", "on", ">pass", "~carillon:*", "&carillon:*", "+@all", "-@dangerous", "+info")
    url = redis.url.replace("redis://", "redis://hub:pass@")
    with group(redis, 2, CARILLON_REDIS_URL=url) as (one, two), Member(one) as ada, Member(two) as bob:
        ada.join("presence-room", "ada")
        bob.join("presence-room", "bob")
        ada.trigger("presence-room", "client-hello", {})
        ada.sign_in_as("ada")
        ada.subscribe(SERVER_TO_USER + "ada")
        ada.subscribed(SERVER_TO_USER + "ada")
        APP.backend(two).send_to_user("ada", "hello", {})
        ada.wait_for_event("hello")
        assert subscribers(two, "presence-room") == 2


def test_tls_with_certificates(folder):
    """Redis and the hub judge each other."""
    server, client = Certificate(folder, "redis"), Certificate(folder, "hub")
    with Redis("--tls-port", "0") as probe:
        port = probe.port
    with Redis("--port", "0", "--tls-port", str(port), "--tls-cert-file", str(server.certificate), "--tls-key-file",
               str(server.key), "--tls-ca-cert-file", str(client.certificate)) as redis:
        settings = {"CARILLON_REDIS_URL": f"rediss://127.0.0.1:{port}",
                    "CARILLON_REDIS_CA_FILE": str(server.certificate)}
        identity = {"CARILLON_REDIS_CERTIFICATE_FILE": str(client.certificate),
                    "CARILLON_REDIS_KEY_FILE": str(client.key)}
        with group(redis, 1, **settings, **identity) as (hub,):
            assert publishes(hub, "news")
        with Hub(redis, **settings) as hub:
            hub.program.err.wait_for(lambda line: "Redis: loop" in line and "is down" in line, "no certificate, no entry")


def test_hubs_of_other_names_are_strangers(redis):
    with group(redis, 1) as (one,), group(redis, 1, CARILLON_REDIS_NAME="other") as (two,), Member(one) as ada:
        ada.join("news")
        assert publishes(two, "news", "strange") and publishes(one, "news", "own")
        ada.wait_for_event("own")
        assert not ada.heard("strange")


class Dev:
    """One of the hubs of `carillon dev`."""

    apps = (APP,)

    def __init__(self, line):
        self.port = int(re.search(r"ws://127\.0\.0\.1:(\d+)", line).group(1))


@pytest.mark.parametrize("ends", ["interrupted", "killed"])
def test_dev_runs_three(folder, ends):
    """With a Redis of their own, and nothing is left of them."""
    os.chmod(folder, 0o711)
    path = f"{pathlib.Path(PROGRAMS['redis']).parent}:{os.environ['PATH']}"
    program = Program("dev", "--hubs", "3", "--listen", "127.0.0.1:0", "--dir", f"{folder}/dev",
                      environment={"PATH": path})
    try:
        program.out.wait_for(lambda line: line.startswith("Ctrl-C"), "how to stop them", 120)
        hubs = [Dev(line) for line in program.out.lines if "ws://" in line]
        assert len(hubs) == 3
        with contextlib.ExitStack() as stack:
            people = [stack.enter_context(Member(hub)) for hub in hubs]
            for number, member in enumerate(people):
                member.join("presence-room", f"user-{number}")
            assert publishes(hubs[0], "presence-room", "news")
            for member in people:
                member.wait_for_event("news")
        # As it is printed, in another terminal.
        line, = [line for line in program.out.lines if line.endswith(" cluster")]
        told = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert told.returncode == 0 and told.stdout.endswith("3 hubs\n"), told
        if ends == "killed":
            program.kill()
        else:
            assert program.interrupt() == 0
        for hub in hubs:
            eventually(lambda: not is_open(hub.port), "the hub has ended")
        redis = int(re.search(r"port (\d+)", pathlib.Path(folder, "dev/redis.conf").read_text()).group(1))
        eventually(lambda: not is_open(redis), "Redis has ended")
    finally:
        program.interrupt()
        cluster.stop_if_running(pathlib.Path(folder, "dev"))


def test_dev_counts_its_hubs():
    for count in ("0", "10", "many"):
        program = Program("dev", "--hubs", count)
        assert program.wait() == 64 and "--hubs" in program.err.text()


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_check_config_hides_what_is_secret():
    command = Program("check-config", environment={
        "CARILLON_APPS": '[{"id":"1","key":"k","secret":"s"}]',
        "CARILLON_REDIS_URL": "redis+sentinel://:hidden@a,b/main?sentinel_password=hidden"})
    assert command.wait() == 0, command.err.text()
    assert "hidden" not in command.out.text() + command.err.text()
    assert "redis.url" in command.out.text()


def test_a_termination_reaches_all_hubs(redis):
    with group(redis, 3) as hubs, contextlib.ExitStack() as stack:
        people = [stack.enter_context(Member(hub)) for hub in hubs]
        for member in people:
            member.sign_in_as("ada")
        start = time.monotonic()
        APP.backend(hubs[0]).terminate_user_connections("ada")
        for member in people:
            eventually(lambda: not member.is_open, "the connection is closed")
            assert member.close_code == 4009
        assert time.monotonic() - start < PATIENCE


@contextlib.contextmanager
def limited(redis, count, **limits):
    """Hubs with an app that is limited."""
    app = Application(limits=limits)
    with contextlib.ExitStack() as stack:
        hubs = [stack.enter_context(Hub(redis, CARILLON_APPS=json.dumps([app.setting()]))) for _ in range(count)]
        for hub in hubs:
            hub.apps = (app,)
        yield [hub.ready() for hub in hubs]


def test_hubs_share_an_apps_connections(redis):
    with limited(redis, 2, connections=6) as (one, two), contextlib.ExitStack() as stack:
        people = [stack.enter_context(Member(one)) for _ in range(4)]
        for member in people:
            member.join("news")
        codes = []

        def is_full():
            """Until this hub has heard of the other's connections, it lets in more: they end at once."""
            with Device(two, key=two.apps[0].key) as device:
                first = device.wait_for(lambda frame: frame.event.startswith("pusher:"), "an answer")
                if first.event == "pusher:error":
                    codes.append(first.data["code"])
                return first.event == "pusher:error"

        stack.enter_context(Member(two)).join("news")
        stack.enter_context(Member(two)).join("news")
        eventually(is_full, "the hub knows that there are six")
        # A client that was told so tries again by itself.
        assert codes == [4100]
        one.kill()
        eventually(lambda: not is_full(), "the others are gone")


def test_hubs_share_an_apps_channels(redis):
    with limited(redis, 2, channels=3) as (one, two), Member(one) as here, Member(two) as there:
        for number in range(3):
            here.join(f"room-{number}")
        there.join("room-0")

        def is_refused():
            start = there.count()
            there.ask_for("room-4")
            frame = there.wait_for(
                lambda frame: frame.channel == "room-4" and "subscription" in frame.event, "an answer", start=start)
            if frame.event == "pusher:subscription_error":
                return True
            there.unsubscribe("room-4")
            return False

        eventually(is_refused, "the hub knows that there are three")
        there.join("room-1")
        for number in range(3):
            here.unsubscribe(f"room-{number}")
        eventually(lambda: not is_refused(), "there is room again")


def test_hubs_share_an_apps_rate(redis):
    with limited(redis, 2, publishesPerSecond=40) as (one, two), Caller(one) as here, \
            Caller(two) as there:
        def taken(caller, seconds):
            end, count = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                count += caller.publish(["news"], "e").status == 200
            return count

        def both():
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                each = [pool.submit(taken, caller, 2) for caller in (here, there)]
                return sum(future.result() for future in each)

        # At first each lets through all of it, and the burst.
        both()
        eventually(lambda: both() <= 2 * 40 * 1.3, "both together keep to the rate")
        eventually(lambda: taken(here, 2) >= 2 * 40 * 0.8, "one has all of it")


def test_a_rolling_deploy_makes_nobody_flicker(redis, tmp_path, record_property):
    """`loadtest rolling`, in small; LOADTEST names the program."""
    file = tmp_path / "rolling.json"
    run = subprocess.run(
        [LOADTEST, "rolling", "--program", PROGRAM, "--redis", redis.url, "--clients", "150", "--per-channel", "30",
         "--rate", "40", "--quiet", "0.5", "--json", file], capture_output=True, text=True)
    record_property("report", run.stdout)
    # It fails if anybody was told that a member left or came, or if a publish was refused or lost.
    assert run.returncode == 0, run.stdout + run.stderr
    ways = json.loads(file.read_text())["ways"]
    assert set(ways) == {"take-over", "restart"}
    for told in ways.values():
        assert len(told["seconds"]) == 3 and told["absences"]["returns"] >= 150 and told["published"] > 50, run.stdout
        assert told["deliveries"] > 30 * told["published"] // 2, run.stdout


def test_the_console_shows_all_hubs(redis):
    credential = "c" * 32
    bearer = {"Authorization": f"Bearer {credential}"}
    with group(redis, 2, CARILLON_CONSOLE_CREDENTIAL=credential) as (one, two), Member(one) as here, \
            Browser() as browser, Console(browser, one) as console:
        here.join("news")
        console.page.get_by_label("Credential").fill(credential)
        console.page.get_by_role("button", name="Open", exact=True).click()
        console.row("hubs", "this one")
        rows = console.page.locator("#hubs tbody tr")
        eventually(lambda: rows.count() == 2, "both are shown")
        assert f"process {two.program.process.pid}" in console.page.locator("#hubs").inner_text()
        # Redis is asked every five seconds.
        console.page.locator("#hubs", has_text="1 channel,").wait_for()
        answer, text = ask(two, "GET", "/console/api/hubs", **bearer)
        told = json.loads(text)
        assert answer.status == 200 and sorted(hub["isThisOne"] for hub in told["hubs"]) == [False, True], told
        two.kill()
        eventually(lambda: rows.count() == 1, "the dead one is gone")
        redis.stop()
        console.page.locator("#hubs", has_text="Redis: ").wait_for()
        # All else is shown as ever.
        assert console.page.locator("#trouble").is_hidden()
        redis.start()
    with Server(CARILLON_APPS=json.dumps([APP.setting()]), CARILLON_CONSOLE_CREDENTIAL=credential) as alone:
        assert ask(alone, "GET", "/console/api/hubs", **bearer)[0].status == 404


def test_what_was_taken_is_heard_though_redis_is_restarted(redis):
    """A publish is answered with 200 only once all hubs hear Redis again."""
    with group(redis, 2) as hubs, contextlib.ExitStack() as stack:
        people = [stack.enter_context(Member(hub)) for hub in hubs]
        for member in people:
            member.join("news")
        taken = []

        def publish_for(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for number, hub in enumerate(hubs):
                    name = f"e{len(taken)}-{number}-{time.monotonic_ns()}"
                    if publishes(hub, "news", name):
                        taken.append(name)
                time.sleep(0.05)

        for _ in range(2):
            publish_for(0.5)
            redis.stop()
            publish_for(0.5)
            redis.start()
            publish_for(6)
        for member in people:
            eventually(lambda: not set(taken) - {frame.event for frame in member.frames}, "all is heard")
        assert len(taken) > 40
        for hub in hubs:
            assert "ORDER" not in hub.program.err.text()
