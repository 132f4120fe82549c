"""Devices of the web library through the histories of the others: killed at any write, on a bad network."""

import os

from library_storm import run_histories
from web_storm import WebStorm

#: `HISTORIES=1000` is what a release is judged by.
COUNT = int(os.environ.get("HISTORIES", "4"))


def test_histories_of_killed_devices(record_property):
    record_property("report", run_histories(WebStorm, COUNT, 4))
