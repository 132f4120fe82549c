"""A small churn in every run of the tests; `make churn` is the large one."""

from churn import churn


def test_counts_are_exact_and_memory_is_flat(record_property):
    record_property("report", churn(count=300, seconds=8, quiet_every=2))
