"""Several listeners: IPv4, IPv6 and a unix-domain socket, whose file comes and goes with its hub."""

import json
import os
import re
import socket
import stat

import pytest
from websockets.sync.client import connect, unix_connect

from hub import Program, Server
from waiting import PATIENCE, eventually

APPS = '[{"id":"7","key":"key-of-7","secret":"secret-of-7"}]'


def has_ipv6():
    """Containers often have none."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def greeted(connection):
    with connection:
        return json.loads(connection.recv(PATIENCE))["event"] == "pusher:connection_established"


@needs_ipv6
def test_every_listener_serves(tmp_path):
    path = tmp_path / "hub.sock"
    listen = f"127.0.0.1:0,[::1]:0,unix:{path}"
    with Server(CARILLON_APPS=APPS, CARILLON_LISTEN=listen, CARILLON_UNIX_SOCKET_MODE="0600") as server:
        addresses = server.address.split(",")
        for address in addresses[:2]:
            assert greeted(connect(f"ws://{address}/app/key-of-7?protocol=7", open_timeout=PATIENCE, proxy=None)), address
        assert addresses[2] == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert greeted(unix_connect(str(path), uri="ws://hub/app/key-of-7?protocol=7", open_timeout=PATIENCE))
    assert not path.exists()


@needs_ipv6
def test_both_families_on_one_port():
    with Server(CARILLON_APPS=APPS, CARILLON_LISTEN="[::]:0") as server:
        port = int(re.search(r"\d+$", server.address)[0])
        for host in ("127.0.0.1", "[::1]"):
            assert greeted(connect(f"ws://{host}:{port}/app/key-of-7?protocol=7", open_timeout=PATIENCE, proxy=None))


def test_what_a_killed_hub_left_is_taken_over(tmp_path):
    path = tmp_path / "hub.sock"
    settings = {"CARILLON_APPS": APPS, "CARILLON_LISTEN": f"unix:{path}"}
    with Server(**settings) as server:
        second = Program("serve", environment=settings)
        assert second.wait() == 1
        eventually(lambda: not second.err.is_open, "its complaint")
        assert f"cannot listen on unix:{path}: another program listens there" in second.err.text()
        assert path.exists()
        server.program.kill()
    assert path.exists() and not reachable(path)
    with Server(**settings):
        assert reachable(path)
    assert os.listdir(tmp_path) == []


def reachable(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_a_port_that_the_hub_may_not_take_is_a_setting_to_change():
    """A supervisor does not start it again after 78, and `check-config` says it before."""
    may_not = ("setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service", "--")
    for name, key, value in (("CARILLON_LISTEN", "listen", "127.0.0.1:1"),
                             ("CARILLON_OPERATIONS_LISTEN", "operations.listen", "127.0.0.1:2")):
        given = {"CARILLON_APPS": APPS, "CARILLON_LISTEN": "127.0.0.1:0", name: value}
        hub = Program("serve", environment=given, before=may_not if os.geteuid() == 0 else ())
        assert hub.wait() == 78, hub.err.text()
        assert f"cannot listen on {value}: this user may not take a port below 1024" in hub.err.text()
        for way in ("AmbientCapabilities=CAP_NET_BIND_SERVICE", "carillon.socket", "choose one from 1024 on with --"):
            assert way in hub.err.text(), hub.err.text()
        before = Program("check-config", environment=given)
        assert before.wait() == 0
        assert f"notice: {key}: {value} is a port below 1024" in before.err.text()
