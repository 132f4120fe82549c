"""Sixty devices on a bad network, for forty seconds, while hub and PostgreSQL fall: nobody misses anything."""

from resume import SETTINGS, Journey, Route
from stage import Stage
from storm import new_seed


def test_every_device_arrives(record_property):
    with Stage(settings=SETTINGS) as stage:
        journey = Journey(stage, new_seed(), Route.of(40, 60))
        report = journey.run()
    record_property("report", report)
    assert not journey.ledger.faults, report
    counts = journey.ledger.counts
    assert counts["kills"] >= 2 and counts["stops"] >= 1, report
    assert counts["recovered"] >= 60 and counts["replayed"] and counts["snapshots"] > 60, report
    assert counts["stream_reset"] and counts["position_expired"], report
