"""All clients are dropped at once and are back after exactly a second: a small `loadtest storm` in every run of the tests.

LOADTEST names the program, by default the one beside CARILLON.
"""

import json
import subprocess

import certificates
from certificates import Certificate
from device import Device
from hub import LOADTEST, Hub

CLIENTS, BY_TLS = 400, 60


def test_all_are_current_again(tmp_path, record_property):
    file = tmp_path / "storm.json"
    with Hub(*certificates.settings(Certificate(tmp_path, "localhost")), listen="127.0.0.1:0,tls:127.0.0.1:0") as hub:
        hub.wait_until_listening()
        run = subprocess.run(
            [LOADTEST, "storm", "--dir", hub.folder, "--pid", str(hub.pid), "--clients", str(CLIENTS),
             "--tls-clients", str(BY_TLS), "--rounds", "1", "--json", file], capture_output=True, text=True)
        record_property("report", run.stdout)
        assert run.returncode == 0, run.stdout + run.stderr
    figures = json.loads(file.read_text())
    for side, clients in (("clear", CLIENTS), ("tls", BY_TLS)):
        told = figures[side]
        # Three times on two channels each: after a restart, with nothing missed, and with events missed.
        assert (told["recovered"], told["lost"], told["astray"]) == (6 * clients, {}, 0), run.stdout
        queries = [sum(each["queries"].values()) for each in (told["first"], *told["back"], told["missed"])]
        assert queries[0] > 0 and queries[1:] == [0, 0], run.stdout
        nothing = {"refused": 0, "closed": 0, "gone": 0, "ended": {}}
        assert all(each["trouble"] == nothing for each in told["bare"]), run.stdout


def test_a_client_that_asks_is_told_how_long_to_stay_away():
    with Hub() as hub, Device(hub) as device:
        device.send("sync:backoff", {})
        assert device.wait_for_event("sync:backoff").data == {"minMs": 1000, "maxMs": 2000}
