"""What operators rely on: health checks, metrics that Prometheus' own tool finds good, and the word to devices."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

import cluster
from device import Device
from doses import add_dose, hears, joined
from hub import Hub, Server
from names import stream
from plain import Application, Caller, Member, PlainHub
from waiting import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
APPS = '[{"id":"7","key":"key-of-7","secret":"secret-of-7"}]'
# On the machine, or where deploy/development/packages puts it.
PROMTOOL = shutil.which("promtool") or shutil.which(ROOT / ".build/tools/promtool")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool: deploy/development/packages test")


def get(url):
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def metrics(hub):
    """Each series' value, by its name and labels as they are written."""
    status, text = get(hub.operations + "/metrics")
    assert status == 200
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines() if not line.startswith("#")}


def checked(*arguments, text=None):
    return subprocess.run([PROMTOOL, *arguments], input=text, text=True, capture_output=True)


@promtool
def test_metrics_are_good_for_prometheus(hub):
    result = checked("check", "metrics", text=get(hub.operations + "/metrics")[1])
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@promtool
def test_alerts_are_rules():
    result = checked("check", "rules", str(ROOT / "deploy/prometheus/alerts.yml"))
    assert result.returncode == 0, result.stdout + result.stderr


@promtool
def test_alerts_say_what_is_the_matter(tmp_path):
    text = (ROOT / "Tests/ThirdParty/alerts.test.yml").read_text()
    cases = tmp_path / "alerts.test.yml"
    cases.write_text(text.replace("[RULES]", json.dumps([str(ROOT / "deploy/prometheus/alerts.yml")])))
    result = checked("test", "rules", str(cases))
    assert result.returncode == 0, result.stdout + result.stderr


def test_release_builds_are_made_in_one_place():
    """One script builds the program that is shipped, judged and measured, with the flag that makes it run elsewhere."""
    files = [ROOT / "Makefile", ROOT / "deploy/Containerfile"]
    for folder in ["deploy/development", "loadtest", "Tests/ThirdParty", ".ci"]:
        files += [path for path in (ROOT / folder).iterdir() if path.is_file() and path != pathlib.Path(__file__)]
    found = {str(path.relative_to(ROOT)): line for path in files for line in path.read_text().splitlines()
             if re.search(r"swift build.*(-c|--configuration) *release", line)}
    assert list(found) == ["deploy/development/release"]
    assert "--static-swift-stdlib" in found["deploy/development/release"]


def test_the_image_has_what_it_needs():
    lines = (ROOT / "deploy/Containerfile").read_text().splitlines()
    users = [line for line in lines if line.startswith("USER ")]
    assert [re.fullmatch(r"USER [1-9]\d*:[1-9]\d*", line) is not None for line in users] == [True]
    assert any("deploy/development/release" in line for line in lines)
    assert any(re.search(r"install .*-s .*\.build/release/carillon /out/carillon$", line) for line in lines)
    ignored = (ROOT / ".dockerignore").read_text()
    assert ignored == (ROOT / ".containerignore").read_text()
    assert {".git", ".build*", ".carillon*"} <= set(ignored.splitlines())


def test_the_units_steps_make_its_group():
    lines = (ROOT / "deploy/carillon.service").read_text().splitlines()
    group = next(line for line in lines if line.startswith("SupplementaryGroups=")).split("=")[1]
    steps = [line.removeprefix("#").strip() for line in lines if line.startswith("#     ")]
    assert steps.index(f"groupadd --system --force {group}") < steps.index("systemctl daemon-reload")
    for step in steps:
        for word in step.split():
            if word.startswith("deploy/"):
                assert (ROOT / word).is_file(), step


def test_the_unit_starts_a_crashed_hub_within_its_clients_second():
    """pusher-js comes back after one second, and then after 15 more. So starts have no limit: the default allows five in
    ten seconds, which are over in one."""
    section, settings = "", {}
    for line in (ROOT / "deploy/carillon.service").read_text().splitlines():
        if line.startswith("["):
            section = line
        elif "=" in line and not line.startswith("#"):
            settings[section, line.split("=")[0]] = line.split("=", 1)[1]
    assert settings["[Service]", "RestartSec"] == "100ms"
    assert settings["[Unit]", "StartLimitIntervalSec"] == "0"


def test_the_example_leaves_the_container_as_it_is():
    """The environment's example does not undo what the image sets for its own network."""
    def given(path, prefix):
        lines = (ROOT / path).read_text().splitlines()
        return dict(line.removeprefix(prefix).split("=", 1) for line in lines if line.startswith(prefix + "CARILLON_"))

    image, example = given("deploy/Containerfile", "ENV "), given("deploy/environment.example", "")
    assert image["CARILLON_OPERATIONS_LISTEN"] == "0.0.0.0:9601"
    assert {name: example.get(name, value) for name, value in image.items()} == image


def test_alerts_look_at_what_there_is(hub, user):
    """Each metric that an alert names is one of the hub's; those of TLS and of Redis are shown where there is that
    (test_tls.py, test_many_hubs.py)."""
    shown = set(re.findall(r"^# TYPE (\S+)", get(hub.operations + "/metrics")[1], re.MULTILINE))
    rules = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"(?:carillon|process)_\w+", rules)}
    assert {"carillon_tls_reloads_total", "carillon_tls_certificate_expiry_seconds"} <= named
    named = {name for name in named if not name.startswith(("carillon_tls_", "carillon_redis_"))}
    assert named and named <= shown, named - shown


def test_no_user_and_no_health_data(hub, user):
    name = f"{user}-quite-a-secret"
    with joined(hub, name) as device:
        device.subscribed(stream(name))
        dose = add_dose(hub, name)
        hears(device, name, dose)
        # Topics and types of a peer's invention are labels of nothing.
        device.subscribe(stream(name, "invented_topic"))
        device.subscribed(stream(name, "invented_topic"))
        device.send("sync:action", {"v": 1, "key": f"{name}-1", "type": "inventedType", "payload": {}})
        device.wait_for_event("sync:result")
        assert metrics(hub)['carillon_actions_total{type="other",result="rejected"}'] >= 1
    text = get(hub.operations + "/metrics")[1]
    for secret in (name, "secret", str(dose), "invented", "inventedType", "note"):
        assert secret not in text, secret


def test_labels_are_few(hub):
    series = metrics(hub)
    names = {}
    for key in series:
        names.setdefault(key.partition("{")[0], []).append(key)
    # As many as snapshots have routes and results.
    assert all(len(of_one) <= 128 for of_one in names.values()), max(names.values(), key=len)
    labels = set(re.findall(r'[{,](\w+)="', "\n".join(series)))
    assert labels <= {"app", "choice", "code", "from", "kind", "le", "limit", "loop", "platform", "reason", "result",
                      "role", "route", "sqlstate_class", "state", "status", "topic", "type", "version"}


def test_what_happens_is_counted(hub, user):
    before = metrics(hub)
    with joined(hub, user) as device:
        device.subscribed(stream(user))
        assert metrics(hub)['carillon_connections{kind="websocket"}'] >= 1
        hears(device, user, add_dose(hub, user))
        device.wait_for_event("adherence.summary_updated", stream(user))
    delivered = 'carillon_events_delivered_total{topic="adherence"}'
    wanted = before.get(delivered, 0) + 2
    after = eventually(lambda: (found := metrics(hub)).get(delivered, 0) >= wanted and found, delivered)
    late = 'carillon_event_latency_seconds_{}{{from="commit"}}'
    count, total = (after[late.format(part)] - before[late.format(part)] for part in ("count", "sum"))
    assert count >= 2 and 0 < total / count < 10
    assert after["carillon_connections_total"] > before["carillon_connections_total"]
    assert after['carillon_feed_reads_total{kind="tail"}'] > before['carillon_feed_reads_total{kind="tail"}']
    assert after["carillon_position_check_behind_total"] == 0


def test_apps_are_told_apart():
    """An operator of several apps sees whose connections, channels, events and calls these are."""
    one, two = Application("1", "key-1", "secret-1", limits={"batchEvents": 1}), Application("22", "key-2", "secret-2")
    with PlainHub(one, two, environment={"CARILLON_OPERATIONS_LISTEN": "127.0.0.1:0"}) as hub:
        with Member(hub, one) as ada, Member(hub, one) as bob, Member(hub, two) as eve:
            for member, channel in ((ada, "private-x"), (bob, "private-x"), (bob, "y"), (eve, "y")):
                member.join(channel)
            one.backend(hub).trigger("private-x", "e", {})
            for member in (ada, bob):
                member.wait_for_event("e", "private-x")
            with Caller(hub, one) as caller:
                event = {"name": "e", "data": "{}", "channel": "y"}
                caller.call("POST", "/batch_events", {"batch": [event, event]}).refuses(400, "Batch too large")
            series = metrics(hub)

            def of(name, **labels):
                more = "".join(f',{label}="{value}"' for label, value in labels.items())
                return [series[f'carillon_app_{name}{{app="{app}"{more}}}'] for app in ("1", "22")]

            assert of("connections") == [2, 1]
            assert of("subscriptions") == [3, 1]
            assert of("channels") == [2, 1]
            assert of("messages_received_total") == [3, 1]
            assert of("channel_events_total", **{"from": "backend"}) == [1, 0]
            assert of("channel_events_delivered_total") == [2, 0]
            assert of("api_requests_total", status="2xx") == [1, 0]
            assert of("api_requests_total", status="4xx") == [1, 0]
            assert of("limits_reached_total", limit="limits.batchEvents") == [1, 0]
            assert sum(len(key) > 0 for key in series if 'app="22"' in key) == 20, "as the operator's page says"
            ids = set(re.findall(r'app="([^"]*)"', "\n".join(series)))
            assert ids == {"1", "22"}
            hub.reload(one)
            eventually(lambda: 'app="22"' not in get(hub.operations + "/metrics")[1], "an app that has gone is not shown")
            assert metrics(hub)['carillon_app_messages_received_total{app="1"}'] == 3


def test_a_bad_token_is_counted(hub, user):
    name = 'carillon_auth_failures_total{reason="signature"}'
    before = metrics(hub)[name]
    with Device(hub) as device:
        head, _, signature = hub.token(user).rpartition(".")
        device.authenticate(f"{head}.{signature[::-1]}")
        device.complaint()
    assert metrics(hub)[name] > before


def test_a_hub_without_its_database():
    """Alive all the time; ready when it has caught up once, and from then on; devices are told."""
    with Hub() as hub:
        hub.wait_until_listening()
        eventually(lambda: get(hub.operations + "/readyz") == (200, "ok\n"), "it is ready")
        with joined(hub, "demo") as device:
            device.subscribed(stream("demo"))
            cluster.crash(hub.folder)
            assert device.wait_for_event("sync:status").data == {"degraded": True, "reason": "database_unavailable"}
            assert get(hub.operations + "/livez") == (200, "ok\n")
            assert get(hub.operations + "/readyz") == (200, "ok\n")
            with Device(hub) as late:
                late.answered()
                assert [frame.event for frame in late.frames[:2]] == ["pusher:connection_established", "sync:status"]
            series = metrics(hub)
            assert series['carillon_feed_status{status="away"}'] == 1 and series["carillon_pg_listen_up"] == 0
            assert series['carillon_pg_connections{role="tail",state="down"}'] == 1
            seen = device.count()
            cluster.start(hub.folder)
            assert device.wait_for_event("sync:status", start=seen).data == {"degraded": False}
            assert metrics(hub)["carillon_pg_reconnects_total"] >= 1
            assert device.is_open


def test_a_database_that_refuses_writes():
    """As managed servers do whose disk is full: operators are told, and devices stay."""
    with Hub() as hub:
        hub.wait_until_listening()
        eventually(lambda: get(hub.operations + "/readyz") == (200, "ok\n"), "it is ready")
        with hub.superuser() as connection:
            connection.execute("alter role carillon_hub set default_transaction_read_only = on")
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'carillon_hub'")
        eventually(lambda: "PostgreSQL refused writes: it is read-only" in get(hub.operations + "/readyz")[1],
                   "it says what PostgreSQL refuses")
        assert get(hub.operations + "/readyz")[0] == 200


def test_a_hub_that_begins_without_its_database(tmp_path):
    nowhere = f"postgresql://carillon_hub@/nothing?host={tmp_path}"
    with Server(CARILLON_APPS=APPS, DATABASE_URL=nowhere, CARILLON_LOG_FORMAT="json") as server:
        assert get(server.operations + "/livez") == (200, "ok\n")
        assert get(server.operations + "/readyz") == (503, "waiting for the database\n")
        assert get(server.operations + "/metrics")[0] == 200
        server.program.err.wait_for(lambda line: "is down" in line, "a complaint")
        messages = [json.loads(line)["message"] for line in server.program.err.text().splitlines()]
        assert "listening" in messages and "ready" not in messages


def test_a_hub_that_needs_none():
    with Server(CARILLON_APPS=APPS, CARILLON_LOG_FORMAT="json") as server:
        assert get(server.operations + "/readyz") == (200, "ok\n")
        series = metrics(server)
        assert 'carillon_loop_tick_age_seconds{loop="0"}' in series
        # Or alerts would say that it is away.
        assert not [name for name in series if name.startswith(("carillon_feed_", "carillon_pg_", "carillon_actions_"))]
        server.program.err.wait_for(lambda line: '"ready"' in line, "ready, in the log")


FAKE_APT = """#!/bin/bash
conf=/etc/postgresql-common/createcluster.conf
policy=$(test -x /usr/sbin/policy-rc.d && echo yes)
echo "$* policy=$policy cluster=$(grep -c '^create_main_cluster = false' $conf)" >>"$CALLS"
case "$*" in *postgresql-common*) echo '# as Debian has it' >$conf ;; esac
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs folders of the machine's, in a mount namespace: root")
@pytest.mark.parametrize("has_policy", [False, True])
def test_packages_are_installed_and_start_nothing(tmp_path, has_policy):
    """Debian would start what it installs, and make a PostgreSQL cluster that starts at each boot."""
    for name in ("sbin", "conf", "none", "bin"):
        (tmp_path / name).mkdir()
    policy = tmp_path / "sbin" / "policy-rc.d"
    if has_policy:
        policy.write_text("#!/bin/sh\nexit 0\n")
        policy.chmod(0o755)
    for name, text in {"apt-get": FAKE_APT, "dpkg-query": "#!/bin/bash\nexit 1\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    calls = tmp_path / "calls"
    mounts = [("sbin", "/usr/sbin"), ("conf", "/etc/postgresql-common"), ("none", "/usr/lib/postgresql")]
    script = "set -e; mount --make-rprivate /; " + "".join(
        f"mkdir -p {target}; mount --bind {tmp_path}/{name} {target}; " for name, target in mounts
    ) + f"exec {ROOT}/deploy/development/packages run"
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "CALLS": str(calls), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = calls.read_text().splitlines()
    assert "postgresql-common policy=yes" in first
    assert " postgresql " in second + " " and "policy=yes cluster=1" in second
    assert policy.exists() == has_policy, "what was made for the time of the installation is gone"
    assert (tmp_path / "conf" / "createcluster.conf").read_text() == "# as Debian has it\n"
