"""`carillon drain`, the end of a hub behind a balancer, and sockets that systemd holds."""

import json
import signal
import socket
import time

import pytest

from succession import WAYS, Half, Site, Visitor, activated, close_code, lives, says, wait_for_end
from test_operations import get
from waiting import eventually


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as made:
        yield made


def metric(site, name):
    _, text = get(f"http://127.0.0.1:{site.operations}/metrics")
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"carillon_{name} "))


def test_by_hand_and_back(site):
    hub = site.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="2")
    clients = [site.client() for _ in range(20)]
    drain = site.command()
    drain.out.wait_for(lambda line: line == "draining", "draining")
    says(hub, '"draining"')
    eventually(lambda: metric(site, "drain_closings_total") >= 2, "the first are closed")
    assert site.status() == 503 and site.status("livez") == 200
    assert metric(site, "draining") == 1
    back = site.command("--cancel")
    assert back.wait() == 0
    assert drain.wait() == 0
    for command in (back, drain):
        command.out.wait_for(lambda line: line.startswith("taken back"), "taken back")
    assert site.status() == 200 and metric(site, "draining") == 0
    closed = int(metric(site, "drain_closings_total"))
    # Nobody listens for it elsewhere: they come back in a second.
    codes = [close_code(client) for client in clients if not lives(client)]
    assert codes == [1001] * closed and closed < 20
    again = site.command("--cancel")
    assert again.wait() == 1
    eventually(lambda: "no drain is under way" in again.err.text(), "its complaint")
    site.serves()


def test_to_the_end_and_the_hub_lives(site):
    hub = site.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="1", CARILLON_DRAIN_DEADLINE="500ms")
    clients = [site.client() for _ in range(10)]
    drain = site.command()
    for client in clients:
        assert close_code(client) == 1001
    assert drain.wait() == 0
    drain.out.wait_for(lambda line: line == "drained", "drained")
    assert hub.process.poll() is None and site.status() == 503
    assert site.command("--cancel").wait() == 0
    site.serves()
    assert hub.interrupt() == 0


def test_no_hub_to_drain(site):
    drain = site.command()
    assert drain.wait() == 1
    eventually(lambda: "no hub listens there" in drain.err.text(), "its complaint")


def test_behind_a_balancer_clients_are_closed_one_by_one(site):
    hub = site.start(CARILLON_DRAIN_PAUSE="200ms", CARILLON_DRAIN_CONNECTIONS_PER_SECOND="10")
    clients = [site.client() for _ in range(6)]
    hub.process.send_signal(signal.SIGTERM)
    says(hub, '"draining"')
    for client in clients:
        assert close_code(client) == 1001
    wait_for_end(hub)
    says(hub, '"drained"')


# Sockets that systemd holds.

@pytest.fixture
def listeners(site):
    """As systemd makes them, blocking; in another order than that of the settings."""
    clear, secure, unix = socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX)
    for made, port in ((clear, site.clear), (secure, site.secure)):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    unix.bind(str(site.unix))
    for made in (clear, secure, unix):
        made.listen(64)
    yield [unix, secure, clear]
    for made in (clear, secure, unix):
        made.close()


NAMES = ["unix", "secure", "clear"]


def test_a_restart_refuses_nobody(site, listeners):
    with Visitor(site.clear, "/") as visitor:
        for _ in range(3):
            hub = activated(site, listeners, NAMES)
            site.serves()
            client = site.client()
            hub.process.send_signal(signal.SIGTERM)
            assert close_code(client) == 4200
            wait_for_end(hub)
            assert site.unix.exists(), "it is systemd's"
        hub = activated(site, listeners, NAMES)
        hub.kill()
        # Killed: those who come wait for the next.
        activated(site, listeners, NAMES)
        visitor.has_come()
    # A kill cuts off those who were inside.
    assert len(visitor.failures) <= 1, visitor.failures
    assert not any("refused" in failure for failure in visitor.failures)


def test_visitors_are_answered_before_the_end(site, listeners):
    hub = activated(site, listeners, NAMES)
    visitors = [Half(site, way) for way in WAYS]
    eventually(lambda: metric(site, "unfinished_bytes") >= 3 * len(Half.BEGINNING), "the hub has what they sent")
    hub.process.send_signal(signal.SIGTERM)
    says(hub, '"draining"')
    # Longer than a client gets that does not answer the close.
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 0.7, "time passes")
    for visitor in visitors:
        assert visitor.answer().startswith("HTTP/1.1 ")
    wait_for_end(hub)


def test_a_silent_visitor_holds_up_nobody_for_long(site, listeners):
    hub = activated(site, listeners, NAMES)
    site.visit("clear")
    eventually(lambda: metric(site, 'connections{kind="http"}') > 0, "it is inside")
    hub.process.send_signal(signal.SIGTERM)
    wait_for_end(hub)
    took = json.loads(says(hub, '"drained"'))["took"]
    assert float(took.removesuffix("ms").removesuffix("s")) < (1_500 if took.endswith("ms") else 1.5), took


def test_a_successor_gets_sockets_from_both(site, listeners):
    old = activated(site, listeners, NAMES)
    client = site.client()
    new = activated(site, listeners, NAMES, "--take-over", until='"took over')
    assert close_code(client) == 4200
    wait_for_end(old)
    site.serves()
    assert new.interrupt() == 0 and site.unix.exists()


@pytest.mark.parametrize("missing", ["descriptor", "setting"])
def test_sockets_and_settings_must_agree(site, listeners, missing):
    if missing == "descriptor":
        hub = activated(site, listeners[1:], NAMES[1:], until=None)
        words = [f"listen names unix:{site.unix}, and systemd gives no such socket"]
    else:
        listen = f"tls:127.0.0.1:{site.secure}"
        hub = activated(site, listeners, NAMES, until=None, CARILLON_LISTEN=listen)
        words = [f"systemd gives unix:{site.unix} (unix), which listen does not name",
                 f"systemd gives 127.0.0.1:{site.clear} (clear), which listen does not name"]
    assert hub.wait() == 78
    for text in words:
        eventually(lambda: text in hub.err.text(), text)


def test_other_descriptors_are_refused(site, listeners):
    with socket.socket() as unbound:
        hub = activated(site, [*listeners, unbound], [*NAMES, "odd"], until=None)
        assert hub.wait() == 78
        eventually(lambda: "(odd), which is no listening stream socket" in hub.err.text(), "its complaint")
