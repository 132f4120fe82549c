"""Devices of the web library through the histories of the others: killed at any write, on a bad network."""

import functools
import os

import pytest

from library_storm import run_histories
from test_web_mutants import MUTANTS
from web_storm import WebHistories, WebStorm

#: `HISTORIES=1000` is what a release is judged by.
COUNT = int(os.environ.get("HISTORIES", "4"))

#: Faults of the client that histories see too. `test_web_mutants.py` sees them all, each by a test of its own.
SEEN = ("a key made anew on retry", "a key made anew after a restart", "a position that is stored before its event")


def test_histories_of_killed_devices(record_property):
    record_property("report", run_histories(WebStorm, COUNT, 4))


@pytest.mark.skipif("HISTORIES" not in os.environ, reason="HISTORIES=1 shows that histories see mutants")
@pytest.mark.parametrize("name", SEEN)
def test_a_mutant_is_seen(name):
    class Mutant(WebStorm):
        changes = MUTANTS[name][1]
        # A mutant may fail by never coming to an end.
        histories = functools.partial(WebHistories, calm=15, limit=90)

    # Each report has this line: a storm in which no device died has no fault, and sees nothing.
    with pytest.raises(AssertionError, match=r"faults +[1-9]"):
        run_histories(Mutant, 20, 4)
