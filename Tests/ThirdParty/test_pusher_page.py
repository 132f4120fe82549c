"""The code of the Pusher page, pasted as it stands."""

import json
import re
import subprocess

import pytest

from hub import Server
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


def test_a_call_with_curl_publishes(server):
    sample, = code(PUSHER, "### A call with curl", "sh")
    call = subprocess.run(["bash", "-euc", at(server, sample)], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert (call.returncode, call.stdout) == (0, "{}")
