"""What an operator of several hubs is told: by `carillon cluster`, and in hubs' logs."""

import contextlib
import json
import re
import signal
import socket
import urllib.request

import pytest

from hub import Program
from pages import ROOT, code
from plain import APP, Caller, Member
from redis_server import PROGRAMS, Redis
from test_many_hubs import Hub, group, publishes, redis
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.skipif("redis" not in PROGRAMS, reason="there is no Redis")

#: As the operator's page wants it.
BEHIND = ("--client-output-buffer-limit", "pubsub 256mb 64mb 60")


@pytest.fixture(params=PROGRAMS)
def fit(request):
    """A Redis with which nothing is wrong."""
    with Redis(*BEHIND, name=request.param) as server:
        server.name = request.param
        yield server


def cluster_command(url, *options):
    command = Program("cluster", *options, environment={"CARILLON_REDIS_URL": url} if url else {})
    return command.wait(), command.out.lines, command.err.text()


def entries(hub, words):
    """The entries of its log with these words."""
    return [entry for entry in map(json.loads, list(hub.program.err.lines)) if words in entry["message"]]


def number(hub):
    """By which the others know it."""
    return entries(hub, "by its number")[-1]["hub"]


def with_user(redis, *rights):
    redis("ACL", "SETUSER", "hub", "reset", "on", ">pass", *rights)
    return redis.url.replace("redis://", "redis://hub:pass@")


RIGHTS = ("~carillon:*", "&carillon:*", "+@all", "-@dangerous", "+info")


def test_the_command_tells_who_is_there(fit):
    status, lines, words = cluster_command(fit.url)
    assert status == 1 and lines[1] == "no hub was ever here under the name carillon", lines
    assert words == "carillon: no hub is there", words
    with group(fit, 3) as hubs, Member(hubs[0]) as ada:
        ada.join("news")
        status, lines, words = cluster_command(fit.url)
        assert status == 0 and lines[0].startswith(fit.name.capitalize() + " ") and not words, lines + [words]
        assert lines[1].startswith("channels 1, webhooks waiting 0, last beat "), lines
        assert lines[-1] == "3 hubs" and len(lines) == 6, lines
        for hub in hubs:
            line, = [line for line in lines if f"process {hub.program.pid} " in line]
            assert line.startswith(f"hub {number(hub)}  ") and f" 127.0.0.1:{hub.port}  apps " in line, line
            assert socket.gethostname() in line and re.search(r"heard [0-4]\.\d s ago$", line), line
        hubs[0].program.interrupt()
        eventually(lambda: cluster_command(fit.url)[1][-1] == "2 hubs", "the one that has ended is not there")


def test_the_command_says_what_is_wrong(redis):
    assert cluster_command(None)[0] == 78
    redis.stop()
    status, _, words = cluster_command(redis.url.replace("redis://", "redis://:hidden@"))
    assert status == 1 and words.startswith(f"carillon: Redis at {redis.url}: nobody takes the connection"), words
    assert "hidden" not in words


def test_the_command_says_that_hubs_are_dead(fit):
    with group(fit, 1) as (hub,):
        hub.kill()
        eventually(lambda: "was not heard for" in cluster_command(fit.url)[2], "it is taken for dead")
        assert cluster_command(fit.url)[0] == 1


@pytest.mark.parametrize("settings, words", [
    ((), "set client-output-buffer-limit to pubsub 256mb 64mb 60: it cuts hubs that are 32 MiB behind"),
    ((*BEHIND, "--maxmemory-policy", "allkeys-lru"), "set maxmemory-policy to noeviction: it is allkeys-lru"),
], ids=["output", "eviction"])
def test_the_command_judges_redis(settings, words):
    with Redis(*settings) as redis:
        status, _, told = cluster_command(redis.url)
        assert status == 1 and f"carillon: Redis is not fit for hubs: {words}" in told.splitlines(), told


def test_the_command_judges_replicas():
    with Redis(*BEHIND) as master, Redis(*BEHIND, "--replicaof", f"127.0.0.1 {master.port}"):
        eventually(lambda: "connected_slaves:1" in master("INFO", "replication"), "the replica is there")
        assert "set min-replicas-to-write to 1" in cluster_command(master.url)[2]
        master("CONFIG", "SET", "min-replicas-to-write", "1")
        # The master counts its replicas each second.
        eventually(lambda: "min-replicas-to-write" not in cluster_command(master.url)[2], "nothing is wrong any more")


CHANNELS = "&carillon:* +ssubscribe +sunsubscribe +spublish"


@pytest.mark.parametrize("rights, lacking", [
    (RIGHTS[:1] + RIGHTS[2:], CHANNELS), ((*RIGHTS, "-ssubscribe"), CHANNELS), ((*RIGHTS, "-spublish"), CHANNELS),
    (("~other:*", *RIGHTS[1:]), " ".join(RIGHTS)), ((*RIGHTS, "-@scripting"), " ".join(RIGHTS)),
    (RIGHTS[:-1], " ".join(RIGHTS)),
], ids=["channels", "subscribe", "publish", "keys", "scripts", "info"])
def test_a_right_that_is_missing_is_named_once(fit, rights, lacking):
    with Hub(fit, CARILLON_REDIS_URL=with_user(fit, *rights)) as hub:
        hub.program.err.wait_for(lambda line: "is down" in line, "what is wrong")
        status, _, words = cluster_command(hub.settings["CARILLON_REDIS_URL"])
        told, = [entry["message"] for entry in entries(hub, "is down")]
        assert f"in Redis: ACL SETUSER NAME {lacking});" in told, told
        # It asks for nothing that is kept.
        assert status == 1 and (lacking in words or "no hub is there" in words), words
        assert hub.readiness()[0] == 503
        with_user(fit, *RIGHTS)
        hub.ready()
        assert publishes(hub, "news") and len(entries(hub, "is down")) == 1


def connections(redis):
    """How many the server has had."""
    return int(redis("INFO", "stats").split("total_connections_received:")[1].split()[0])


def test_a_right_that_is_taken_away_is_told_once(fit):
    url = with_user(fit, *RIGHTS)
    with group(fit, 1, CARILLON_REDIS_URL=url) as (hub,), Member(hub) as member:
        # One that no question at the start looks for.
        with_user(fit, *RIGHTS[:1], "&carillon:*:rights", "&carillon:*:beat", *RIGHTS[2:])
        member.ask_for("room")
        eventually(lambda: entries(hub, "Redis refuses calls"), "what is wrong")
        # To a channel in which nobody is, nothing is told: that may be done.
        eventually(lambda: not publishes(hub, "room"), "it refuses what it cannot tell")
        connects = len(entries(hub, "is up"))
        eventually(lambda: connections(fit) > 20, "it tries again", 60)
        assert len(entries(hub, "Redis refuses calls")) == 1 and len(entries(hub, "is up")) <= connects + 2
        with_user(fit, *RIGHTS)
        eventually(lambda: entries(hub, "Redis takes calls again"), "it is over", 60)
        assert publishes(hub, "news")


def test_hubs_that_join_and_end_are_logged(redis):
    with group(redis, 2) as (one, two):
        for hub in (one, two):
            eventually(lambda: cluster_command(redis.url)[1][-1] == "2 hubs", "both are there")
        with Hub(redis) as three:
            three.ready()
            for hub in (one, two):
                entry, = eventually(lambda: entries(hub, "a hub has joined")[-1:], "it has joined")
                assert entry["hub"] == number(three) and f"process {three.program.pid} " in entry["is"], entry
                assert entry["level"] == "info", entry
            three.program.interrupt()
            for hub in (one, two):
                entry, = eventually(lambda: entries(hub, "a hub has ended"), "it has ended")
                assert entry["hub"] == number(three) and entry["level"] == "info", entry
        two.kill()
        entry, = eventually(lambda: entries(one, "is taken for dead"), "it is dead")
        assert entry["hub"] == number(two) and entry["level"] == "warning", entry
        assert entry["is"].startswith(cluster_command(redis.url)[1][2].split("  ")[1]), entry
        assert 5 <= float(entry["silent"].removesuffix(" s")) < 20, entry


def test_a_hub_that_was_away_says_so(redis):
    with group(redis, 2) as (one, two):
        first = number(two)
        two.program.stand_still()
        entry, = eventually(lambda: entries(one, "is taken for dead"), "it is dead")
        two.program.process.send_signal(signal.SIGCONT)
        entry, = eventually(lambda: entries(two, "took this one for dead"), "it says so")
        assert entry["was"] == first and entry["level"] == "warning", entry
        eventually(lambda: [joined for joined in entries(one, "has joined") if joined["hub"] == entry["hub"]], "it is back")
        assert not entries(two, "is taken for dead")


@pytest.mark.parametrize("change", [{"secret": "another"}, {"limits": {"channels": 7}}],
                         ids=["secret", "limit"])
def test_hubs_with_different_apps_are_noticed(change):
    other = json.dumps([APP.setting() | change])
    with Redis(*BEHIND) as fit, group(fit, 2) as (one, _), Hub(fit, CARILLON_APPS=other) as three:
        three.ready()
        eventually(lambda: "hubs serve other apps" in cluster_command(fit.url)[2], "the command says it")
        assert cluster_command(fit.url)[0] == 1
        for hub in (one, three):
            entry, = eventually(lambda: entries(hub, "serves other apps"), "the log says it")
            assert entry["level"] == "warning" and "another" not in json.dumps(entry).replace("another hub", ""), entry
        three.program.interrupt()
        eventually(lambda: entries(one, "serve the same apps again"), "it is over")
        assert cluster_command(fit.url)[0] == 0 and len(entries(one, "serves other apps")) == 1


def refusals(hub):
    with urllib.request.urlopen(f"{hub.operations}/metrics", timeout=PATIENCE) as answer:
        return int(re.search(r"^carillon_redis_unavailable_total (\d+)$", answer.read().decode(), re.M)[1])


def test_each_refusal_is_counted_and_says_what_is_known(redis):
    with group(redis, 1) as (hub,), Member(hub) as member:
        assert refusals(hub) == 0
        redis.stop()
        eventually(lambda: not publishes(hub, "news"), "Redis is away")
        before = refusals(hub)
        assert before >= 1
        with Caller(hub) as caller:
            # Several channels are one call.
            answer = caller.publish(["news", "room", "other"], "e")
            assert answer.status == 503 and answer.fields["retry-after"] == "1", answer
            assert "published nothing" in answer.body["error"], answer
            answer = caller.publish(["news"], "e", fields={"Idempotency-Key": "k"})
            assert answer.status == 503 and "published nothing" in answer.body["error"], answer
        assert refusals(hub) == before + 2
        redis.start()

        def settles():
            with Caller(hub) as caller:
                answer = caller.publish(["news"], "e")
            return answer.status == 503 and "hubs tell it" in answer.body["error"] and answer
        assert eventually(settles, "Redis is back").fields["retry-after"] == "3"


class Configured(Redis):
    """Of a file of its own."""

    def __init__(self, folder, text, *settings):
        super().__init__(*settings)
        file = folder / f"{self.port}.conf"
        file.write_text(text)
        self._begin = [str(file)]


PAGE = ROOT / "deploy/README.md"


def page():
    """What the operator's page has for one server, for several, and for sentinels."""
    blocks = code(PAGE, "### Set up Redis", "conf")
    assert len(blocks) == 3
    return blocks


def test_the_configuration_of_the_page_is_enough(tmp_path):
    one, _, _ = page()
    with Configured(tmp_path, one) as redis:
        url = redis.url.replace("redis://", "redis://hub:HUB-PASSWORD@")
        with group(redis, 2, CARILLON_REDIS_URL=url) as (here, there), Member(here) as ada, Member(there) as bob:
            ada.join("presence-room", "ada")
            bob.join("presence-room", "bob")
            assert publishes(there, "presence-room", "news")
            ada.wait_for_event("news")
            assert cluster_command(url)[0] == 0
            # Who may see all finds nothing wrong either.
            assert cluster_command(redis.url.replace("redis://", "redis://admin:ADMIN-PASSWORD@"))[0] == 0
            assert "NOPERM" not in here.program.err.text() + there.program.err.text()


def test_the_sentinels_of_the_page_find_the_master(tmp_path):
    one, several, sentinel = page()
    url, = code(PAGE, "### Set up Redis", "text")
    with Configured(tmp_path, one + several) as master:
        replica = Configured(tmp_path, one + several, "--replicaof", f"127.0.0.1 {master.port}")
        file = tmp_path / "sentinel.conf"
        file.write_text(sentinel.replace("10.0.0.21 6379", f"127.0.0.1 {master.port}"))
        with replica, Redis(file=file) as watch:
            value = url.strip().replace("10.0.0.21,10.0.0.22,10.0.0.23", f"127.0.0.1:{watch.port}")
            with group(master, 2, CARILLON_REDIS_URL=value) as hubs:
                for hub in hubs:
                    # Once the replica is there.
                    eventually(lambda: publishes(hub, "news"), "publishes are taken")
                assert cluster_command(value)[0] == 0
                # It has asked the master, as its user.
                eventually(lambda: f"known-replica main 127.0.0.1 {replica.port}" in file.read_text(), "it knows all")
