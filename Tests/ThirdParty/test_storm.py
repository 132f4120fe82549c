"""Fifty devices of ten users act at once while the hub is killed ten times and PostgreSQL stopped three times."""

from stage import Stage
from storm import Storm, new_seed


def test_nothing_is_lost_and_nothing_done_twice(record_property):
    with Stage() as stage:
        storm = Storm(stage, new_seed())
        report = storm.run()
        record_property("report", report)
        assert not storm.ledger.faults, report
        counts = storm.ledger.counts
        assert (counts["kills"], counts["stops"]) == (10, 3), report
        assert counts["actions"] >= 2000 and counts["foreign transactions"] >= 100, report
        assert counts["key_reused"] and counts["replayed"] and counts["renumbered"] and counts["conflict"], report
