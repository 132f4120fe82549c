"""The judges judged: hubs with one error each, and a short storm that must notice it. Without an error it is silent."""

import dataclasses

import pytest

import mutants
from stage import Stage
from storm import Plan, Storm, new_seed

#: Few people on the same rows, no falling servers: seconds.
SHORT = Plan(users=2, phones=4, actions=60, kills=0, stops=0, terminations=0, writers=6, pause=0.01, restores=0.15,
             limit=60)

#: What is lost shows when the server falls. The app writes nothing meanwhile: its commits would put all before them on disk.
FALLING = dataclasses.replace(SHORT, stops=4, writers=0)

#: Errors, and what a storm has to say of them: one of these.
MUTANTS = {
    "no_key_lookup": (mutants.NO_KEY_LOOKUP, SHORT, ["executed twice"]),
    "old_number_means_done": (
        mutants.OLD_NUMBER_MEANS_DONE, SHORT, ["answered, and not stored", "executed twice", "a forged repeat"]),
    "no_digest": (mutants.NO_DIGEST, SHORT, ["a forged repeat was answered"]),
    "count_at_statement_time": (mutants.COUNT_AT_STATEMENT_TIME, SHORT, ["not the summary of the doses", "stored {"]),
    "not_on_disk": (mutants.ANSWER_BEFORE_IT_IS_ON_DISK, FALLING, ["answered, and not stored", "executed twice"]),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_storm_notices(name, record_property):
    mutant, plan, words = MUTANTS[name]
    # What shows an error (two writers of one day, a fall at the wrong moment) is a matter of chance: of three storms one.
    for _ in range(3):
        with Stage() as stage:
            # A new life, as prepared statements would go on with the truth.
            stage.hubs[0].kill()
            stage.query(mutant)
            stage.hubs[0].start()
            storm = Storm(stage, new_seed(), plan)
            report = storm.run()
        faults = [fault for fault in storm.ledger.faults if any(word in fault for word in words)]
        if faults:
            break
    assert faults, report
    record_property("report", f"{len(storm.ledger.faults)} faults, CARILLON_SEED={storm.seed}: {faults[0][:100]}")


def test_a_storm_is_silent_where_nothing_is_wrong():
    """Two hubs, so that what one does has to reach the other's devices."""
    with Stage(hubs=2) as stage:
        storm = Storm(stage, new_seed(), SHORT)
        report = storm.run()
    assert not storm.ledger.faults, report
