"""`carillon drain`, the end of a hub behind a balancer, and sockets that systemd holds."""

import json
import signal
import socket
import time

import pytest

from succession import WAYS, Half, Place, Visitor, activated, close_code, lives, says, wait_for_end
from test_operations import get
from waiting import eventually


@pytest.fixture
def place(tmp_path):
    with Place(tmp_path) as made:
        yield made


def metric(place, name):
    _, text = get(f"http://127.0.0.1:{place.operations}/metrics")
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"carillon_{name} "))


def test_by_hand_and_back(place):
    hub = place.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="2")
    clients = [place.client() for _ in range(20)]
    drain = place.command()
    drain.out.wait_for(lambda line: line == "draining", "draining")
    says(hub, '"draining"')
    eventually(lambda: metric(place, "drain_closings_total") >= 2, "the first are closed")
    assert place.status() == 503 and place.status("livez") == 200
    assert metric(place, "draining") == 1
    back = place.command("--cancel")
    assert back.wait() == 0
    assert drain.wait() == 0
    for command in (back, drain):
        command.out.wait_for(lambda line: line.startswith("taken back"), "taken back")
    assert place.status() == 200 and metric(place, "draining") == 0
    closed = int(metric(place, "drain_closings_total"))
    # Nobody listens for it elsewhere: they come back in a second.
    codes = [close_code(client) for client in clients if not lives(client)]
    assert codes == [1001] * closed and closed < 20
    again = place.command("--cancel")
    assert again.wait() == 1
    eventually(lambda: "no drain is under way" in again.err.text(), "its complaint")
    place.serves()


def test_to_the_end_and_the_hub_lives(place):
    hub = place.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="1", CARILLON_DRAIN_DEADLINE="500ms")
    clients = [place.client() for _ in range(10)]
    drain = place.command()
    for client in clients:
        assert close_code(client) == 1001
    assert drain.wait() == 0
    drain.out.wait_for(lambda line: line == "drained", "drained")
    assert hub.process.poll() is None and place.status() == 503
    assert place.command("--cancel").wait() == 0
    place.serves()
    assert hub.interrupt() == 0


def test_no_hub_to_drain(place):
    drain = place.command()
    assert drain.wait() == 1
    eventually(lambda: "no hub listens there" in drain.err.text(), "its complaint")


def test_behind_a_balancer_clients_are_closed_one_by_one(place):
    hub = place.start(CARILLON_DRAIN_PAUSE="200ms", CARILLON_DRAIN_CONNECTIONS_PER_SECOND="10")
    clients = [place.client() for _ in range(6)]
    hub.process.send_signal(signal.SIGTERM)
    says(hub, '"draining"')
    for client in clients:
        assert close_code(client) == 1001
    wait_for_end(hub)
    says(hub, '"drained"')


# Sockets that systemd holds.

@pytest.fixture
def listeners(place):
    """As systemd makes them, blocking; in another order than that of the settings."""
    clear, secure, unix = socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX)
    for made, port in ((clear, place.clear), (secure, place.secure)):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    unix.bind(str(place.unix))
    for made in (clear, secure, unix):
        made.listen(64)
    yield [unix, secure, clear]
    for made in (clear, secure, unix):
        made.close()


NAMES = ["unix", "secure", "clear"]


def test_a_restart_refuses_nobody(place, listeners):
    with Visitor(place.clear, "/") as visitor:
        for _ in range(3):
            hub = activated(place, listeners, NAMES)
            place.serves()
            client = place.client()
            hub.process.send_signal(signal.SIGTERM)
            assert close_code(client) == 4200
            wait_for_end(hub)
            assert place.unix.exists(), "it is systemd's"
        hub = activated(place, listeners, NAMES)
        hub.kill()
        # Killed: those who come wait for the next.
        activated(place, listeners, NAMES)
        visitor.has_come()
    # A kill cuts off those who were inside.
    assert len(visitor.failures) <= 1, visitor.failures
    assert not any("refused" in failure for failure in visitor.failures)


def test_visitors_are_answered_before_the_end(place, listeners):
    hub = activated(place, listeners, NAMES)
    visitors = [Half(place, way) for way in WAYS]
    eventually(lambda: metric(place, "unfinished_bytes") >= 3 * len(Half.BEGINNING), "the hub has what they sent")
    hub.process.send_signal(signal.SIGTERM)
    says(hub, '"draining"')
    # Longer than a client gets that does not answer the close.
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 0.7, "time passes")
    for visitor in visitors:
        assert visitor.answer().startswith("HTTP/1.1 ")
    wait_for_end(hub)


def test_a_silent_visitor_holds_up_nobody_for_long(place, listeners):
    hub = activated(place, listeners, NAMES)
    place.visit("clear")
    eventually(lambda: metric(place, 'connections{kind="http"}') > 0, "it is inside")
    hub.process.send_signal(signal.SIGTERM)
    wait_for_end(hub)
    took = json.loads(says(hub, '"drained"'))["took"]
    assert float(took.removesuffix("ms").removesuffix("s")) < (1_500 if took.endswith("ms") else 1.5), took


def test_a_successor_gets_sockets_from_both(place, listeners):
    old = activated(place, listeners, NAMES)
    client = place.client()
    new = activated(place, listeners, NAMES, "--take-over", until='"took over')
    assert close_code(client) == 4200
    wait_for_end(old)
    place.serves()
    assert new.interrupt() == 0 and place.unix.exists()


@pytest.mark.parametrize("missing", ["descriptor", "setting"])
def test_sockets_and_settings_must_agree(place, listeners, missing):
    if missing == "descriptor":
        hub = activated(place, listeners[1:], NAMES[1:], until=None)
        words = [f"listen names unix:{place.unix}, and systemd gives no such socket"]
    else:
        listen = f"tls:127.0.0.1:{place.secure}"
        hub = activated(place, listeners, NAMES, until=None, CARILLON_LISTEN=listen)
        words = [f"systemd gives unix:{place.unix} (unix), which listen does not name",
                 f"systemd gives 127.0.0.1:{place.clear} (clear), which listen does not name"]
    assert hub.wait() == 78
    for text in words:
        eventually(lambda: text in hub.err.text(), text)


def test_other_descriptors_are_refused(place, listeners):
    with socket.socket() as unbound:
        hub = activated(place, [*listeners, unbound], [*NAMES, "odd"], until=None)
        assert hub.wait() == 78
        eventually(lambda: "(odd), which is no listening stream socket" in hub.err.text(), "its complaint")
