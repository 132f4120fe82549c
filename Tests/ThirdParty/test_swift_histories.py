"""Devices of the Swift library through the histories of the others: killed at any write, on a bad network."""

import os
import pathlib

import pytest

from library_storm import LibraryStorm, run_histories
from swift_phone import DEVICE, SwiftPhone

#: `HISTORIES=1000` is what a release is judged by.
COUNT = int(os.environ.get("HISTORIES", "8"))

pytestmark = pytest.mark.skipif(not pathlib.Path(DEVICE).is_file(), reason="swift build --product ClientDevice")


class SwiftStorm(LibraryStorm):
    phone = SwiftPhone


def test_histories_of_killed_devices(record_property):
    record_property("report", run_histories(SwiftStorm, COUNT, 8))
