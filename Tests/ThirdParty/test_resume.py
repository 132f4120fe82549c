"""Sixty devices on a bad network, while hub and PostgreSQL fall: nobody misses anything. And mutants."""

import pytest

import mutants
from device import Device
from names import stream
from resume import SETTINGS, Journey, Route
from stage import Stage
from storm import new_seed
from waiting import PATIENCE

#: Nothing falls but the log and its epochs: seconds. Many snapshots of many days: only an event that comes just then, of
#: a day that is shown, tells of a wrong position.
SHORT = Route(users=3, phones=4, kills=0, stops=0, terminations=0, epochs=4, deletions=3, herds=2, every=3, seconds=10,
              calm=10, limit=60, days=8)


def test_every_device_arrives(record_property):
    with Stage(settings=SETTINGS) as stage:
        journey = Journey(stage, new_seed(), Route.of(40, 60))
        report = journey.run()
    record_property("report", report)
    assert not journey.ledger.faults, report
    counts = journey.ledger.counts
    assert counts["kills"] >= 2 and counts["stops"] >= 1, report
    assert counts["recovered"] >= 60 and counts["replayed"] and counts["snapshots"] > 60, report
    # Which other losses are met is chance, and on a busy machine there may be none: ResumeTests has each.
    assert counts["stream_reset"], report


def renewed(stage, mutant):
    """Restarts the hub with a mutant: prepared statements would go on with the right functions."""
    stage.hubs[0].kill()
    stage.query(mutant)
    stage.hubs[0].start()


def test_a_journey_notices_snapshots_that_do_not_fit_their_positions(record_property):
    # A matter of chance: of three journeys one.
    for _ in range(3):
        with Stage(settings=SETTINGS) as stage:
            renewed(stage, mutants.POSITION_AFTER_THE_SNAPSHOT)
            journey = Journey(stage, new_seed(), SHORT)
            report = journey.run()
        if journey.ledger.faults:
            break
    assert journey.ledger.faults, report
    record_property("report", f"{len(journey.ledger.faults)} faults: {journey.ledger.faults[0][:100]}")


def joined(hub, stage, user):
    device = Device(hub, token=stage.token(user))
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    return device


def late_commit_is_heard(stage, hub, name, timeout=PATIENCE):
    """Whether the event of a transaction comes in time that began first and committed last; between, the tail
    went past it."""
    early, late = f"{name}.early", f"{name}.late"
    insert = "insert into care.dose_occurrence (user_id, product_id, scheduled_at) values (%s, 'zinc', now())"
    with joined(hub, stage, early) as first, joined(hub, stage, late) as last:
        with stage.database(autocommit=False) as connection:
            connection.execute(insert, [late])
            for _ in range(3):
                mark = first.count()
                stage.query(insert, [early])
                first.wait_for_event("adherence.summary_updated", start=mark)
        try:
            last.wait_for_event("adherence.summary_updated", timeout=timeout)
        except AssertionError:
            return False
        return True


@pytest.mark.parametrize("interval", ["60s", "100ms"])
def test_what_commits_late_comes_or_is_found(interval):
    """`id > cursor` loses such an event. The check of positions finds it, which runs once in twenty of these times."""
    with Stage(settings={"CARILLON_FEED_POLL_INTERVAL": interval}) as stage:
        hub, = stage.hubs
        assert late_commit_is_heard(stage, hub, "truth")
        renewed(stage, mutants.ID_BEYOND_THE_CURSOR)
        if interval == "100ms":
            assert late_commit_is_heard(stage, hub, "mutant")
        else:
            assert not late_commit_is_heard(stage, hub, "mutant", timeout=4)
