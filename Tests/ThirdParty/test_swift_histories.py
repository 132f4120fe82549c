"""Devices of the Swift library through the histories of the others: killed at any write, on a bad network."""

import os
import pathlib

import pytest

from stage import Stage
from storm import new_seed
from swift_phone import DEVICE
from swift_storm import Histories, SwiftStorm

#: `HISTORIES=1000` is what a release is judged by.
COUNT = int(os.environ.get("HISTORIES", "8"))

SETTINGS = {"CARILLON_ACTIVITY_TIMEOUT": "10s", "CARILLON_PONG_TIMEOUT": "5s"}

pytestmark = pytest.mark.skipif(not pathlib.Path(DEVICE).is_file(), reason="swift build --product ClientDevice")


def test_histories_of_killed_devices(record_property):
    seed, done, reports = new_seed(), 0, []
    with Stage(settings=SETTINGS) as stage:
        while done < COUNT:
            storm = SwiftStorm(stage, seed + done, Histories(users=min(8, COUNT - done)))
            report = storm.run()
            assert not storm.ledger.faults, report
            assert storm.ledger.counts["deaths"], report
            done += storm.plan.users
            reports.append(report)
            if COUNT > 8:
                print(report, flush=True)
    record_property("report", f"{done} histories; the last:\n{reports[-1]}")
