"""How a hub ends, in good ways and bad, what it leaves, and how it comes back; and hubs side by side."""

import os
import signal
import subprocess
import tempfile
import time

import pytest

import cluster
from device import Device
from doses import add_dose, hears, joined, psql
from hub import Hub, Program
from names import stream
from waiting import eventually


def test_tail_comes_back_when_the_hub_does():
    with Hub() as hub:
        tail = Program("tail", "--user", "demo", "--dir", str(hub.folder))
        try:
            tail.err.wait_for(lambda line: "subscribed to user.demo.adherence" in line, "subscribed")
            hub.listen = f"127.0.0.1:{hub.port}"
            assert hub.stop() == 0
            # What is committed while no hub runs comes too.
            cluster.start(hub.folder)
            missed = add_dose(hub, "demo")
            cluster.crash(hub.folder)
            hub.start()
            tail.err.wait_for(lambda line: "resumed user.demo.adherence: 2 missed" in line, "resumed")
            tail.out.wait_for(lambda line: "occurrence.created" in line and missed in line, "what was missed")
            dose = add_dose(hub, "demo")
            tail.out.wait_for(lambda line: "occurrence.created" in line and dose in line, "the change")
        finally:
            assert tail.interrupt() == 0


# A terminal that closes sends SIGHUP.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_within_seconds_and_starts_in_seconds(number):
    # The demonstration's own users have schedules, which plan doses at the second start.
    with Hub() as hub:
        device = joined(hub, "ada")
        top = device.subscribed(stream("ada")).data["sync"]["offset"]
        dose = add_dose(hub, "ada")
        hears(device, "ada", dose)
        postmaster = cluster.process_id(hub.folder)
        started = time.monotonic()
        hub.program.process.send_signal(number)
        assert hub.program.wait(10) == 0
        assert time.monotonic() - started < 5
        assert device.closed() == 1001
        assert cluster.process_id(hub.folder) is None and not os.path.exists(f"/proc/{postmaster}")
        # The second start finds what the first left, the numbers of the stream included.
        started = time.monotonic()
        hub.start()
        assert time.monotonic() - started < 10
        assert "found" in hub.program.out.text()
        again = joined(hub, "ada")
        assert again.subscribed(stream("ada")).data["sync"]["offset"] == top + 2
        hears(again, "ada", add_dose(hub, "ada"))
        again.close()


@pytest.mark.parametrize("moment", ["carillon dev in", "  PostgreSQL", "  migration 2", "  demonstration"])
def test_ends_while_it_starts(moment):
    with tempfile.TemporaryDirectory(prefix="judge-") as parent:
        # PostgreSQL's user passes through where we are root.
        os.chmod(parent, 0o711)
        folder = os.path.join(parent, "hub")
        program = Program("dev", "--dir", folder, "--listen", "127.0.0.1:0")
        program.out.wait_for(lambda line: line.startswith(moment), moment)
        assert program.interrupt() == 0
        assert cluster.process_id(folder) is None
        with Hub(folder=folder) as hub:
            add_dose(hub, "demo")


@pytest.mark.parametrize("victims", ["hub", "server", "both"])
def test_a_kill_leaves_nothing_that_the_next_start_cannot_recover_from(victims):
    with Hub() as hub:
        device = joined(hub, "demo")
        device.subscribed(stream("demo"))
        dose = add_dose(hub, "demo")
        hears(device, "demo", dose)
        if victims != "hub":
            cluster.kill(hub.folder)
        if victims != "server":
            hub.program.kill()
            device.closed()
        else:
            device.answered()
            assert hub.stop() == 0
        hub.start()
        assert psql(hub, f"select count(*) from care.dose_occurrence where id = '{dose}'") == "1"
        again = joined(hub, "demo")
        before = again.subscribed(stream("demo")).data["sync"]["offset"]
        late = add_dose(hub, "demo")
        assert hears(again, "demo", late).data["_sync"]["o"] == before + 1
        again.close()
        assert hub.stop() == 0
        assert cluster.process_id(hub.folder) is None


def test_the_server_is_killed_and_started_by_hand_under_the_hub():
    with Hub() as hub:
        device = joined(hub, "demo")
        device.subscribed(stream("demo"))
        postmaster = cluster.process_id(hub.folder)
        cluster.kill(hub.folder)

        def started():
            # Backends of the killed one live on for a moment, and a new one refuses to start beside them.
            try:
                cluster.start(hub.folder)
            except subprocess.CalledProcessError:
                return False
            return True

        eventually(started, "the server starts again")
        assert cluster.process_id(hub.folder) != postmaster
        hears(device, "demo", add_dose(hub, "demo"))
        device.close()
        assert hub.stop() == 0
        assert cluster.process_id(hub.folder) is None


def test_two_hubs_side_by_side():
    with Hub() as one, Hub() as other:
        assert one.port != other.port
        at_one, at_other = joined(one, "demo"), joined(other, "demo")
        at_one.subscribed(stream("demo"))
        at_other.subscribed(stream("demo"))
        first, second = add_dose(one, "demo"), add_dose(other, "demo")
        hears(at_one, "demo", first)
        hears(at_other, "demo", second)
        assert second not in at_one.everything() and first not in at_other.everything()
        # A token of one is none of the other's.
        at_one.close()
        with Device(other) as device:
            device.authenticate(one.token("demo"))
            device.complaint()
        assert one.stop() == 0
        hears(at_other, "demo", add_dose(other, "demo"))
        at_other.close()
