"""The files of deploy, each before its own linter; and what they say of each other, of settings and of metrics."""

import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import kubernetes_validate
import pytest
import yaml

import balancers
from balancers import ROOT, Balancer
from hub import PROGRAM, Server
from stage import free_port
from waiting import PATIENCE, eventually

DEPLOY = ROOT / "deploy"
BESIDE = pathlib.Path(sys.executable).parent


def needs(name):
    return pytest.mark.skipif(balancers.found(name) is None, reason=f"needs {name}: deploy/development/packages test")


def ran(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def seconds(text):
    """A time as the hub, the proxies and Kubernetes write it."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[unit]


# Proxies.


@pytest.mark.parametrize("backend", ["users", "channels"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in balancers.FILES])
def test_a_proxy_takes_its_file(name, backend, folder):
    proxy = Balancer(name, folder, backend=backend)
    proxy.write(tls=True)
    status, words = proxy.judged()
    assert status == 0, words
    assert not re.search(r"\[(WARNING|ALERT|warn|emerg)\]", words), words


@needs("haproxy")
@pytest.mark.parametrize("backend", ["users", "channels"])
def test_before_one_hub_haproxy_waits_for_it(backend, folder):
    """Made as the file says. A client that comes after a crash is let in when the hub is back, and is never refused."""
    proxy = Balancer("haproxy", folder, clients=free_port(), operations=free_port(), backend=backend)
    proxy.becomes_one_hub()
    settings = {"CARILLON_LISTEN": f"{balancers.HOSTS[0]}:{proxy.clients}", "CARILLON_LOG_FORMAT": "json",
                "CARILLON_APPS": '[{"id":"7","key":"key-of-7","secret":"secret-of-7"}]'}
    with proxy:
        with Server(**settings) as server:
            assert asked(proxy.port) == [404]
            server.program.kill()
            answers = []
            client = threading.Thread(target=lambda: answers.extend(asked(proxy.port)))
            client.start()
            eventually(lambda: proxy.is_asked(), "the client has come to haproxy")
            with Server(**settings):
                client.join(PATIENCE)
                assert answers == [404], proxy.log()


def asked(port):
    """The hub answers 404, as there is no such page, and haproxy without a hub 503."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/no-such-page")
    answer = connection.getresponse()
    answer.read()
    return [answer.status]


@pytest.mark.parametrize("name", balancers.FILES)
def test_proxies_wait_longer_than_silent_clients_are_asked(name):
    """A hub pings a silent client after `activityTimeout`, and waits for `pongTimeout`."""
    settings = (DEPLOY / "settings.md").read_text()
    silence = sum(seconds(re.search(rf"`{key}` \| `\w+` \| `(\w+)`", settings).group(1))
                  for key in ("activityTimeout", "pongTimeout"))
    text = balancers.text(name)
    if name == "caddy":
        # It closes no tunnel for its silence.
        assert "stream_timeout" not in text and "read_timeout" not in text
        return
    tunnel = re.search({"haproxy": r"timeout tunnel (\w+)", "nginx": r"proxy_read_timeout (\w+);"}[name], text)
    assert seconds(tunnel.group(1)) >= 2 * silence


@pytest.mark.parametrize("name", ["haproxy", "caddy"])
def test_a_draining_hub_waits_for_its_proxy_to_notice(name):
    text = balancers.text(name)
    if name == "haproxy":
        interval, again, fall = re.search(r"inter (\w+) fastinter (\w+) fall (\d+)", text).groups()
        notices = seconds(interval) + (int(fall) - 1) * seconds(again)
    else:
        notices = seconds(re.search(r"health_interval (\w+)", text).group(1))
    assert notices < seconds(balancers.drain_pause(name)) <= 2 * notices + 1


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
def test_proxies_write_no_paths(name):
    """Paths have users' ids."""
    text = balancers.text(name)
    if name == "haproxy":
        assert "httplog" not in text
        formats = re.findall(r'log-format "(.*)"', text)
        assert formats and not re.search(r"%r|%HP|%HQ|%HU|%hr|%hs", formats[0])
    else:
        formats = " ".join(re.findall(r"log_format carillon (.*?);", text, re.DOTALL))
        assert formats and not re.search(r"\$(request|request_uri|uri|args|document_uri)\b", formats)
        assert re.search(r"error_log \S+ crit;", text)


# systemd.


def test_units_are_good_for_systemd(tmp_path):
    units = [path for suffix in ("service", "socket", "target") for path in DEPLOY.glob(f"*.{suffix}")]
    assert len(units) == 3
    program = tmp_path / "carillon"
    program.symlink_to(pathlib.Path(PROGRAM).resolve())
    for unit in units:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/usr/bin/carillon", str(program)))
    shutil.copy(tmp_path / "carillon.service", tmp_path / "carillon@.service")
    status, words = ran("systemd-analyze", "verify", "--man=no", *[tmp_path / unit.name for unit in units],
                        tmp_path / "carillon@a.service")
    # It also tells of other units of the machine.
    ours = [line for line in words.splitlines() if "carillon" in line]
    assert not ours, words


def test_the_unit_is_well_confined():
    status, words = ran("systemd-analyze", "security", "--offline=yes", "--threshold=20", DEPLOY / "carillon.service")
    assert status == 0, words


# Containers.


def test_the_container_file_is_good_for_hadolint():
    # Debian's packages are the newest of their release, on purpose; and what CMD runs is one line of bash.
    status, words = ran(BESIDE / "hadolint", "--ignore", "DL3008", DEPLOY / "Containerfile")
    assert status == 0, words


def health_check(port):
    """The container's check, at another port."""
    text = (DEPLOY / "Containerfile").read_text()
    words = re.search(r"HEALTHCHECK .* CMD (\[.*?\])\nSTOPSIGNAL", text, re.DOTALL).group(1)
    words = json.loads(words.replace("\\\n", ""))
    return ran(*[word.replace("9601", str(port)) for word in words])[0]


def test_the_containers_health_check_asks_the_hub():
    apps = '[{"id":"7","key":"key-of-7","secret":"secret-of-7"}]'
    with Server(CARILLON_APPS=apps, CARILLON_LOG_FORMAT="json") as server:
        port = server.operations.rpartition(":")[2]
        assert health_check(port) == 0
    assert health_check(port) != 0


def test_compose_is_as_its_schema_says():
    status, words = ran(BESIDE / "check-jsonschema", "--builtin-schema", "vendor.compose-spec",
                        DEPLOY / "compose/compose.yaml")
    assert status == 0, words


def compose():
    return yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())


def test_compose_mounts_what_there_is():
    """And its variables are those of the example."""
    services = compose()["services"]
    paths = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert [path for path in paths if path.startswith(".")]
    for path in paths:
        # Its head says how to make the folder of the keys.
        assert not path.startswith(".") or (DEPLOY / "compose" / path).exists() or path == "./keys", path
    variables = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose/compose.yaml").read_text()))
    assert variables == set(re.findall(r"(?m)^(\w+)=", (DEPLOY / "compose/environment.example").read_text()))


def checked(environment):
    """The hub's own verdict on settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CARILLON")}
    return ran(PROGRAM, "check-config", env={**clean, **environment})


def test_the_hub_takes_composes_settings(tmp_path):
    hub = compose()["services"]["hub"]
    environment = {name: re.sub(r"\$\{\w+:\?.*?\}", "filled-in", value) for name, value in hub["environment"].items()}
    # The keys are at the place that is mounted.
    mounted = dict(reversed(volume.split(":")[:2]) for volume in hub["volumes"] if volume.startswith("."))
    folder, _, name = environment["CARILLON_JWT_KEYS_FILE"].rpartition("/")
    assert (mounted[folder], name) == ("./keys", "jwks.json")
    keys = tmp_path / "jwks.json"
    shutil.copy(DEPLOY / "compose/jwks.example.json", keys)
    status, words = checked({**environment, "CARILLON_JWT_KEYS_FILE": str(keys)})
    assert status == 78 and "change-me" in words, words
    keys.write_text(keys.read_text().replace("change-me", "2026-01"))
    status, words = checked({**environment, "CARILLON_JWT_KEYS_FILE": str(keys)})
    assert status == 0 and "tokens are refused" not in words, words


def manifests():
    return [document for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
            for document in yaml.safe_load_all(path.read_text())]


@pytest.mark.parametrize("version", ["1.28", kubernetes_validate.latest_version()])
def test_kubernetes_manifests_are_as_their_schemas_say(version):
    for document in manifests():
        kubernetes_validate.validate(document, version, strict=True)


def own(settings):
    """With values of one's own in place of the example's."""
    assert any("change-me" in value for value in settings.values())
    return {name: value.replace("change-me", "our-own") for name, value in settings.items()}


def of_kind(kind):
    return next(one for one in manifests() if one["kind"] == kind)


def test_the_hub_takes_kubernetes_settings(tmp_path):
    secret, keys, hub = of_kind("Secret"), of_kind("ConfigMap"), of_kind("Deployment")
    pod = hub["spec"]["template"]["spec"]
    container, = pod["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    # The keys are at the place that is mounted.
    volume, = pod["volumes"]
    mount, = container["volumeMounts"]
    assert volume["configMap"]["name"] == keys["metadata"]["name"] and mount["name"] == volume["name"]
    folder, _, name = environment["CARILLON_JWT_KEYS_FILE"].rpartition("/")
    assert folder == mount["mountPath"] and "subPath" not in mount
    file = tmp_path / name
    file.write_text(own(keys["data"])[name])
    environment["CARILLON_JWT_KEYS_FILE"] = str(file)
    status, words = checked({**own(secret["stringData"]), **environment})
    assert status == 0 and "tokens are refused" not in words, words
    status, words = checked({**secret["stringData"], **environment})
    assert status == 78 and words.count("put your own in its place") == 2, words
    # Webhooks are sent for eight seconds after the pause.
    assert pod["terminationGracePeriodSeconds"] > seconds(environment["CARILLON_DRAIN_PAUSE"]) + 20
    assert pod["enableServiceLinks"] is False


def admitted(policy, port, namespace, labels):
    """Whether a pod in that namespace, with those labels, may come to that port."""
    def fits(selector, given):
        return selector is None or all(given.get(name) == value for name, value in selector.get("matchLabels", {}).items())

    return any(
        fits(one.get("namespaceSelector"), {"kubernetes.io/metadata.name": namespace})
        and fits(one.get("podSelector"), labels)
        and ("namespaceSelector" in one or namespace == "carillon")
        for rule in policy["spec"]["ingress"] if any(entry["port"] == port for entry in rule["ports"])
        for one in rule["from"])


def test_the_network_policy_lets_backends_in():
    policy = of_kind("NetworkPolicy")
    for port, namespace, labels, may in [
            ("clients", "ingress-nginx", {}, True), ("clients", "shop", {"carillon.client": "true"}, True),
            ("clients", "carillon", {"carillon.client": "true"}, True), ("clients", "shop", {}, False),
            ("operations", "monitoring", {}, True), ("operations", "shop", {"carillon.client": "true"}, False)]:
        assert admitted(policy, port, namespace, labels) == may, (port, namespace, labels)


def test_images_are_of_the_same_user():
    """Kubernetes' pods are the user that the container file makes."""
    user, group = re.search(r"(?m)^USER (\d+):(\d+)$", (DEPLOY / "Containerfile").read_text()).groups()
    for one in manifests():
        if one["kind"] in ("Deployment", "Job"):
            context = one["spec"]["template"]["spec"]["securityContext"]
            assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))


# Prometheus and Grafana.


def families():
    """The names of metrics, as the page has them; of histograms, the series too."""
    rows = re.findall(r"(?m)^\| `(\w+)` \|.*\| (.*) \|$", (DEPLOY / "metrics.md").read_text())
    found = {"up"}
    for name, meaning in rows:
        parts = ["_bucket", "_sum", "_count"] if meaning.startswith("histogram") else [""]
        found |= {name + part for part in parts}
    return found


def named(expression):
    """The metrics of an expression."""
    return set(re.findall(r"\b(?:carillon|process)_\w+|\bup\b", re.sub(r'"[^"]*"', '""', expression)))


def alerts():
    return [rule for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
            for rule in group["rules"]]


def panels():
    return json.loads((DEPLOY / "grafana/carillon.json").read_text())["panels"]


def queries():
    return [target["expr"] for panel in panels() for target in panel.get("targets", [])]


def test_queries_name_metrics_that_there_are():
    known = families()
    assert len(known) > 100
    for expression in queries() + [rule["expr"] for rule in alerts()]:
        assert named(expression) and named(expression) <= known, (expression, named(expression) - known)
    assert not named('rate(carillon_nothing_of_the_kind_total{a="up"}[5m])') <= known


def test_each_alert_says_what_to_do():
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names) > 15 and "CarillonPushesLate" in names
    for rule in alerts():
        notes, severity = rule["annotations"], rule["labels"]["severity"]
        assert severity in ("critical", "warning"), rule["alert"]
        assert len(notes["summary"]) > 20 and len(notes["runbook"]) > 20, rule["alert"]
        assert "\n" not in notes["runbook"], rule["alert"]


@needs("promtool")
def test_queries_are_of_prometheus_language(tmp_path):
    """Each as the expression of a rule, with Grafana's variables filled in."""
    def filled(text):
        return text.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*")

    rules = [{"record": f"panel:query:{number}", "expr": filled(text)} for number, text in enumerate(queries())]
    assert len(rules) > 40
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    status, words = ran(balancers.found("promtool"), "check", "rules", file)
    assert status == 0, words
    assert "$" not in file.read_text()


@needs("promtool")
def test_prometheus_takes_its_file():
    status, words = ran(balancers.found("promtool"), "check", "config", DEPLOY / "prometheus/prometheus.yml")
    assert status == 0, words


def test_panels_have_places_of_their_own():
    positions = [(panel["id"], panel["gridPos"]) for panel in panels()]
    assert len({number for number, _ in positions}) == len(positions)
    taken = set()
    for number, position in positions:
        assert position["x"] + position["w"] <= 24
        cells = {(x, y) for x in range(position["x"], position["x"] + position["w"])
                 for y in range(position["y"], position["y"] + position["h"])}
        assert not cells & taken, number
        taken |= cells
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${source}" and panel["targets"] and panel["description"]
            letters = [target["refId"] for target in panel["targets"]]
            assert len(set(letters)) == len(letters)


def test_the_table_of_hubs_names_its_columns():
    table, = [panel for panel in panels() if panel["type"] == "table"]
    organized, = [one["options"] for one in table["transformations"] if one["id"] == "organize"]
    values = {f"Value #{target['refId']}" for target in table["targets"]}
    hidden = {name for name in organized["excludeByName"] if name != "Time"}
    names = organized["renameByName"]
    assert set(names) == values - hidden | {"instance", "version"} and hidden <= values
    assert {one["matcher"]["options"] for one in table["fieldConfig"]["overrides"]} <= set(names.values())
    assert all(target["instant"] and "by (instance" in target["expr"] for target in table["targets"])


def test_provisioning_meets_compose():
    """Grafana finds Prometheus, Prometheus the hub, and both their files."""
    services = compose()["services"]
    source, = yaml.safe_load((DEPLOY / "grafana/source.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in services
    folder, = yaml.safe_load((DEPLOY / "grafana/folder.yml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert f"{folder['options']['path']}/carillon.json" in mounted
    job, = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "carillon" and job["static_configs"][0]["targets"] == ["hub:9601"] and "hub" in services
