"""The judges judged: hubs with one error each, and a short storm that must notice it. Without an error it is silent."""

import pytest

import mutants
from stage import Stage
from storm import Plan, Storm, new_seed

#: Few people on the same rows, no falling servers: seconds.
SHORT = Plan(users=2, phones=4, actions=60, kills=0, stops=0, terminations=0, writers=6, pause=0.01, restores=0.15,
             limit=60)


@pytest.mark.parametrize("mutant, words", [
    (None, None),
    (mutants.NO_KEY_LOOKUP, "executed twice"),
    (mutants.OLD_NUMBER_MEANS_DONE, "answered, and not stored"),
    (mutants.NO_DIGEST, "a forged repeat was answered"),
    (mutants.COUNT_AT_STATEMENT_TIME, "not the summary of the doses"),
], ids=["none", "no_key_lookup", "old_number_means_done", "no_digest", "count_at_statement_time"])
def test_a_storm_notices(mutant, words, record_property):
    with Stage() as stage:
        if mutant:
            # A new life, as prepared statements would go on with the truth.
            stage.hubs[0].kill()
            stage.query(mutant)
            stage.hubs[0].start()
        storm = Storm(stage, new_seed(), SHORT)
        report = storm.run()
        faults = storm.ledger.faults
        if mutant is None:
            assert not faults, report
        else:
            assert any(words in fault for fault in faults), report
            record_property("report", f"{words}: {len(faults)} faults, CARILLON_SEED={storm.seed}")
