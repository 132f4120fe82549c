"""Deploys in a row, each way, while devices receive and act: nobody is refused, no event or action is lost or doubled.

`DEPLOYS` says how many of each way, and `DEPLOY_USERS` of how many people, with five devices each.
"""

import asyncio
import json
import os
import socket
import subprocess
import time

import pytest

from hub import LOADTEST, PROGRAM, Hub
from resume import SETTINGS
from rolling import Deploy, Restarts, Rolling
from stage import Stage
from storm import new_seed
from waiting import PATIENCE, becomes

DEPLOYS = int(os.environ.get("DEPLOYS", "2"))
USERS = int(os.environ.get("DEPLOY_USERS", "8"))


class OneHost(Stage):
    """A hub whose sockets outlive it: it has a control socket, or systemd's listener."""

    def __init__(self, way):
        super().__init__(1, SETTINGS)
        hub = self.hubs[0]
        if way == "take-over":
            # So slow that devices act while it goes on.
            hub.use(CARILLON_CONTROL_SOCKET=str(self.folder / "control.sock"),
                    CARILLON_DRAIN_CONNECTIONS_PER_SECOND=str(20 * USERS // 8))
        else:
            hub.socket = socket.socket()
            hub.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            hub.socket.bind(("127.0.0.1", hub.port))
            hub.socket.listen(4096)

    def close(self):
        super().close()
        if self.hubs[0].socket:
            self.hubs[0].socket.close()


class Deploys(Restarts):
    """One after the other; between two of them all devices act again."""

    async def run(self):
        counts, hub = self.ledger.counts, self.stage.hubs[0]
        for number in range(DEPLOYS):
            goal = counts["applied"] + max(50, len(self.journey.phones))
            assert await becomes(lambda: counts["applied"] >= goal and self._are_back(), 4 * PATIENCE), "devices act"
            before, started = counts["applied"], time.monotonic()
            if hub.socket:
                await asyncio.to_thread(hub.end)
                await asyncio.to_thread(hub.start)
            else:
                await asyncio.to_thread(hub.follow)
            counts[f"deploy {number + 1}: ms"] = round(1000 * (time.monotonic() - started))
            counts[f"deploy {number + 1}: actions meanwhile"] = counts["applied"] - before
        self.journey.is_over = True

    def _are_back(self):
        """Most of them: at any time some change their line."""
        phones = self.journey.phones
        return sum(phone.offset >= 0 for phone in phones) > 0.8 * len(phones)


class Deployed(Rolling):
    """A journey to one port, where there is always somebody."""

    def _faults(self):
        return Deploys(self)


@pytest.mark.parametrize("way", ["take-over", "systemd"])
def test_deploys_lose_and_double_nothing(way, record_property):
    with OneHost(way) as stage:
        journey = Deployed(stage, new_seed(), stage.hubs[0].port, Deploy(users=USERS))
        report = journey.run()
        record_property("report", report)
        assert not journey.ledger.faults, report
        counts = journey.ledger.counts
        # Every device came back from each deploy, from where it was.
        assert counts["recovered"] >= DEPLOYS * len(journey.phones) // 2 and counts["applied"] > 50 * DEPLOYS, report


def test_the_load_tester_measures_deploys(tmp_path, record_property):
    """`loadtest deploy`, in small; LOADTEST names the program."""
    file, devices, deploys = tmp_path / "deploys.json", 40, 2
    with Hub() as hub:
        hub.wait_until_listening()
        run = subprocess.run(
            [LOADTEST, "deploy", "--program", PROGRAM, "--dir", hub.folder, "--deploys", str(deploys), "--users",
             str(devices // 2), "--changes", "40", "--actions", "20", "--quiet", "0.5", "--json", file],
            capture_output=True, text=True)
        record_property("report", run.stdout)
        assert run.returncode == 0, run.stdout + run.stderr
    ways = json.loads(file.read_text())["ways"]
    assert set(ways) == {"take-over", "sockets"}
    for told in ways.values():
        all_of_them = devices * deploys
        assert told["absences"]["returns"] == all_of_them and told["trouble"]["ended"] == {"4200": all_of_them}, run.stdout
        assert told["actions"] > 20 and told["deliveries"] > 100 and told["absences"]["most"] > 0, run.stdout
        assert told["events"]["quiet"]["count"] > 0 and len(told["seconds"]) == deploys, run.stdout
