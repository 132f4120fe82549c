"""The code of the Pusher page, pasted as it stands."""

import base64
import json
import re
import subprocess
import sys

import nacl.secret
import pytest

from device import Device
from hub import PROGRAM, Output, Server
from pages import PUSHER, Opened, at, code, html_of, with_pusher
from waiting import PATIENCE, eventually
from web import Browser

MOVE = "## Move from Pusher, soketi or Reverb"
SETTINGS = json.loads(re.search(r"<<'END'\n(.*?)^END$", code(PUSHER, MOVE, "sh")[0], re.S | re.M)[1])


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture
def server(tmp_path):
    """The hub of the page's first block."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({**SETTINGS, "listen": "127.0.0.1:0"}))
    file.chmod(0o640)
    with Server(CARILLON_CONFIG=str(file), CARILLON_LOG_FORMAT="json") as hub:
        yield hub


def at_port(hub, sample):
    assert "port=6001" in sample
    return sample.replace("port=6001", f"port={hub.port}")


@with_pusher
def test_it_publishes(browser, server, tmp_path, library):
    shell, block, *_ = code(PUSHER, MOVE, "sh")
    assert "chmod 640 settings.json\n.build/release/carillon serve --config settings.json\n" in shell
    sample = at_port(server, code(PUSHER, MOVE, "python")[0])

    def publish():
        exec(compile(sample, "the page", "exec"), {})
        return True

    with Opened(browser, html_of(at(server, block), tmp_path), library) as page:
        eventually(lambda: publish() and "it works" in page.shown(), "the message")


def test_pysher_hears(server, tmp_path):
    """The program of the page in a process of its own, as a person starts it."""
    sample, = code(PUSHER, "### Pysher", "python")
    file = tmp_path / "listen.py"
    file.write_text(at_port(server, sample))
    publish = compile(at_port(server, code(PUSHER, MOVE, "python")[0]), "the page", "exec")
    listener = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True)
    try:
        out = Output(listener.stdout)
        eventually(lambda: exec(publish, {}) or "it works" in out.lines, "the message")
    finally:
        listener.kill()
        listener.wait()


def test_what_is_encrypted_is_read_by_who_may(server, monkeypatch):
    """The hub passes what Pusher's library has encrypted, and the secret of the authorization opens it."""
    (make,), (sample,) = (code(PUSHER, "### Encrypted channels", language) for language in ("sh", "python"))
    key = subprocess.run(["bash", "-euc", f"{make}printf %s \"$MASTER_KEY\""], stdout=subprocess.PIPE, text=True, check=True)
    monkeypatch.setenv("MASTER_KEY", key.stdout)
    *prepare, trigger = at_port(server, sample).splitlines(keepends=True)
    made = {}
    exec(compile("".join(prepare), "the page", "exec"), made)
    channel = "private-encrypted-news"
    with Device(server, key=SETTINGS["apps"][0]["key"]) as device:
        allowed = made["hub"].authenticate(channel, device.socket_id)
        device.subscribe(channel, auth=allowed["auth"])
        device.subscribed(channel)
        exec(compile(trigger, "the page", "exec"), made)
        data = device.wait_for_event("hello", channel).data
        box = nacl.secret.SecretBox(base64.b64decode(allowed["shared_secret"]))
        text = box.decrypt(base64.b64decode(data["ciphertext"]), base64.b64decode(data["nonce"]))
        assert json.loads(text) == {"message": "it works"} and "it works" not in device.everything()


def test_laravel_names_the_hub_of_the_page():
    """PHP is not here to run it: the names are those of Laravel's own config/broadcasting.php, the values the page's."""
    text, = code(PUSHER, "### Laravel", "sh")
    values = dict(line.split("=", 1) for line in text.splitlines())
    app, (host, port) = SETTINGS["apps"][0], SETTINGS["listen"].split(":")
    assert [values.pop(f"PUSHER_{name}") for name in ("APP_ID", "APP_KEY", "APP_SECRET", "HOST", "PORT", "SCHEME")] == [
        app["id"], app["key"], app["secret"], host, port, "http"]
    assert values.pop("BROADCAST_CONNECTION") == "pusher"
    assert values and all(value == f'"${{{name.removeprefix("VITE_")}}}"' for name, value in values.items())
    script, = code(PUSHER, "### Laravel", "js")
    assert set(re.findall(r"import\.meta\.env\.(\w+)", script)) == set(values)


@with_pusher
def test_echo_gives_pusher_js_these_options(browser, server, tmp_path, library):
    """Echo makes a pusher-js of the options that it is given: `new Pusher(options.key, options)`."""
    script, = code(PUSHER, "### Laravel", "js")
    environment = {"VITE_PUSHER_APP_KEY": "app-key", "VITE_PUSHER_HOST": "127.0.0.1", "VITE_PUSHER_PORT": str(server.port),
                   "VITE_PUSHER_SCHEME": "http"}
    file = tmp_path / "echo.html"
    file.write_text(
        "<pre></pre><script src='https://js.pusher.com/8.6.0/pusher.min.js'></script><script>"
        "window.Echo = class { constructor(options) { this.pusher = new Pusher(options.key, options); } }\n"
        + re.sub(r"import\.meta\.env\.(\w+)", lambda found: json.dumps(environment[found[1]]), script) + "</script>")
    with Opened(browser, file, library) as page:
        eventually(lambda: page.type("Echo.pusher.connection.state") == "connected", "it is connected")


def test_a_call_with_curl_publishes(server):
    sample, = code(PUSHER, "### A call with curl", "sh")
    call = subprocess.run(["bash", "-euc", at(server, sample)], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert (call.returncode, call.stdout) == (0, "{}")


def test_the_sample_of_limits_is_read(tmp_path):
    sample, = code(PUSHER, "### Names of settings", "json")
    file = tmp_path / "settings.json"
    file.write_text(sample)
    file.chmod(0o640)
    check = subprocess.run([PROGRAM, "check-config", "--config", file], capture_output=True, text=True, timeout=PATIENCE)
    assert check.returncode == 0, check.stderr
    for line in ("limits.messagesPerSecond", "limits.messageBytes", "activityTimeout"):
        assert re.search(rf"^{line}\b.*file ", check.stdout, re.M), check.stdout
