"""`carillon serve --take-over`: a hub follows another on one host, and whichever is killed, one serves."""

import json
import os
import signal
import stat

import pytest

from succession import WAYS, Half, Hand, Site, Visitor, close_code, ends, lives, played_hub, says, wait_for_end
from waiting import eventually

#: A database that is never there: such a hub is never ready.
NOWHERE = {"DATABASE_URL": "host=/nowhere dbname=nothing"}


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as made:
        yield made


def test_clients_come_back_at_once_and_nobody_is_refused(site):
    old = site.start()
    clients = [site.client(way) for way in WAYS for _ in range(5)]
    with Visitor(site.clear, "/") as visitor, Visitor(site.operations, "/readyz") as balancer:
        new = site.successor()
        for client in clients:
            assert close_code(client) == 4200
        site.serves()
        wait_for_end(old)
        says(new, "the hub before this one has ended")
        visitor.has_come()
        balancer.has_come()
    assert visitor.failures == [] and balancer.failures == []
    assert site.status() == 200
    assert json.loads(says(old, '"drained"'))["took"].endswith(("ms", "s"))
    site.serves()
    # The files are the new hub's now.
    assert new.interrupt() == 0
    assert not site.unix.exists() and not site.control.exists()


def test_five_in_a_row_and_none_waits_for_a_person(site):
    hub = site.start()
    with Visitor(site.clear, "/") as visitor:
        for _ in range(5):
            client = site.client()
            following = site.successor()
            assert close_code(client) == 4200
            wait_for_end(hub)
            hub = following
        visitor.has_come()
    assert visitor.failures == []
    site.serves()


def test_where_no_hub_runs_it_starts_as_usual(site):
    hub = site.start("--take-over")
    says(hub, "no hub to take over from")
    site.serves()
    hub.kill()
    # What the dead one left is replaced.
    site.start("--take-over")
    site.serves()


def test_it_needs_the_control_socket(site):
    hub = site.start("--take-over", until=None, CARILLON_CONTROL_SOCKET="")
    assert hub.wait() == 78
    eventually(lambda: "control.socket" in hub.err.text(), "its complaint")


# The successor goes, at each step. It is played by hand, so that the step is certain.

@pytest.mark.parametrize("step", ["connected", "given", "ready"])
def test_the_old_hub_serves_whenever_the_successor_goes(site, step):
    old = site.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="1")
    client = site.client()
    with Hand.calling(site) as successor:
        if step != "connected":
            successor.take_over()
            assert {name: len(made) for name, made in successor.sockets.items()} == {
                "control": 1, "operations": 1, "listen": 3}
            # Meanwhile the old hub serves.
            site.serves()
            assert site.status() == 200
        if step == "ready":
            more = [site.client() for _ in range(20)]
            successor.say("ready")
            assert successor.hear() == "relieved"
            says(old, '"draining"')
    if step == "ready":
        says(old, "the successor has gone: this hub serves again")
        kept = [made for made in [client, *more] if lives(made)]
        assert len(kept) > 10
    else:
        assert lives(client)
    site.serves()
    assert site.status() == 200
    # Nothing is left of it: the next one takes over.
    site.successor(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="1000")
    assert site.unix.exists() and site.control.exists()
    old.process.send_signal(signal.SIGTERM)
    wait_for_end(old)
    site.serves()


def test_connections_that_a_dead_successor_had_accepted_are_the_only_ones_lost(site):
    old = site.start()
    clients = [site.client(way) for way in WAYS]
    with Hand.calling(site) as successor:
        successor.take_over()
        # Both accept. While the old hub stands still, these come to the successor.
        old.stand_still()
        visitors = [site.visit(way) for way in WAYS]
        accepted = successor.accept()
        old.process.send_signal(signal.SIGCONT)
    for made in accepted:
        made.close()
    for visitor in visitors:
        assert ends(visitor)
    assert all(lives(client) for client in clients)
    site.serves()
    assert site.status() == 200


def test_a_successor_that_never_becomes_ready_changes_nothing(site):
    old = site.start()
    client = site.client()
    new = site.successor(until='"taking over"', **NOWHERE)
    says(old, "a successor starts")
    site.serves()
    # Another one waits for its turn, and a drain is refused.
    third = site.successor(until=None)
    drain = site.command()
    assert drain.wait() == 1
    eventually(lambda: "another hub is taking over" in drain.err.text(), "its complaint")
    new.kill()
    says(old, "the successor has gone before it was ready")
    assert old.process.poll() is None
    # Now it is the third one's turn. The second one has called listen(2) last, and yet it takes over from the first.
    says(third, "took over")
    for line in ('"taking over"', "the hub before this one has ended"):
        assert json.loads(says(third, line))["process"] == str(old.pid)
    assert close_code(client) == 4200
    wait_for_end(old)
    site.serves()


def test_a_successor_that_is_told_to_end_gives_the_sockets_back(site):
    old = site.start()
    new = site.successor(until='"taking over"', **NOWHERE)
    says(old, "a successor starts")
    assert new.interrupt() == 0
    says(old, "the successor has gone before it was ready")
    site.serves()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_successor_that_ends_while_the_old_hub_drains_gives_the_clients_back(site, number):
    old = site.start(CARILLON_DRAIN_CONNECTIONS_PER_SECOND="1")
    clients = [site.client(way) for way in WAYS for _ in range(8)]
    new = site.successor()
    # Until the old hub rests it may accept a client, too. It rests before it closes the first.
    eventually(lambda: not all(lives(client) for client in clients), "the old hub closes a client")
    mine = site.client()
    new.process.send_signal(number)
    says(old, "this hub serves again")
    assert sum(lives(client) for client in clients) > 12
    if number == signal.SIGTERM:
        assert close_code(mine) == 4200
    site.serves()
    assert site.status() == 200
    assert new.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    assert site.unix.exists() and site.control.exists()


# The old hub goes, at each step. It is played by hand, or killed.

@pytest.mark.parametrize("step", ["connected", "asked", "given", "ready", "relieved"])
def test_the_successor_serves_whenever_the_old_hub_goes(site, step):
    with played_hub(site) as sockets:
        control = sockets[0]
        late = step in ("ready", "relieved")
        new = site.successor(until=None, **({} if late else NOWHERE))
        hand = Hand(control.accept()[0])
        if step != "connected":
            assert hand.hear() == "take-over 1"
        if step in ("given", "ready", "relieved"):
            hand.say("sockets control operations listen listen listen", *sockets)
            says(new, '"taking over"')
        if late:
            assert hand.hear() == "ready"
        if step == "relieved":
            hand.say("relieved")
            says(new, "took over")
    # All of its descriptors are closed, but the files of its sockets are there, as after a kill.
    hand.vanish()
    says(new, '"listening"')
    site.serves()
    if late:
        assert site.status() == 200
    else:
        assert site.status() == 503
    assert new.interrupt() == 0
    assert not site.unix.exists() and not site.control.exists()


def test_an_old_hub_that_is_killed_while_the_successor_starts(site):
    old = site.start()
    client = site.client()
    new = site.successor(until='"taking over"', **NOWHERE)
    says(old, "a successor starts")
    old.kill()
    assert close_code(client) == 1006
    says(new, "the hub before this one has ended")
    site.serves()


def test_an_old_hub_that_is_told_to_end_answers_its_visitors(site):
    old = site.start()
    visitors = [Half(site, way) for way in WAYS]
    site.serves()
    site.successor()
    says(old, '"draining"')
    old.process.send_signal(signal.SIGTERM)
    says(old, '"restart"')
    for visitor in visitors:
        assert visitor.answer().startswith("HTTP/1.1 ")
    wait_for_end(old)
    site.serves()


def test_an_old_hub_that_is_told_to_end_while_the_successor_starts(site):
    old = site.start()
    client = site.client()
    new = site.successor(until='"taking over"', **NOWHERE)
    says(old, "a successor starts")
    with Visitor(site.clear, "/") as visitor:
        old.process.send_signal(signal.SIGTERM)
        assert close_code(client) == 4200
        wait_for_end(old)
        visitor.has_come()
    assert visitor.failures == []
    site.serves()
    assert new.process.poll() is None


# What is said at the control socket.

def test_other_listeners_come_and_go_with_the_settings(site):
    old = site.start()
    listen = f"127.0.0.1:{site.clear},tls:127.0.0.1:{site.secure}"
    new = site.successor(CARILLON_LISTEN=listen, CARILLON_OPERATIONS_LISTEN="127.0.0.1:0")
    says(new, "a listener of the hub before this one ends with it")
    wait_for_end(old)
    assert lives(site.client("clear")) and lives(site.client("secure"))


@pytest.mark.parametrize("words", [b"take-over\n", b"take-over 2\n", b"\0\n", b"x" * 65, b"drain drain\n", b"ready\n"])
def test_other_words_do_no_harm(site, words):
    site.start()
    with Hand.calling(site) as hand:
        hand.connection.sendall(words)
        answer = hand.hear()
        assert answer is None or answer.startswith("refused "), answer
    site.serves()
    site.successor()


def test_only_the_hubs_user_may_speak_with_it(site, tmp_path):
    site.start()
    assert stat.S_IMODE(site.control.stat().st_mode) == 0o600
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    # Even where somebody has opened it to all.
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    site.control.chmod(0o666)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with Hand.calling(site) as other:
                status = 2
                other.connection.sendall(b"drain\n")
                status = 0 if other.hear() is None else 3
        except (BrokenPipeError, ConnectionResetError):
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    site.serves()
    assert site.status() == 200
