"""One journey of a soak in every run of the tests; `make soak` makes thirty minutes of them."""

import json

from soak import TOLD, soak


def test_a_soak_tells_what_it_did(record_property):
    report = soak(seconds=8, devices=15)
    record_property("report", json.dumps(report))
    assert not report["faults"], report
    assert report["journeys"] == 1 and set(report["counts"]) == set(TOLD)
    assert report["counts"]["applied"] and report["counts"]["kills"] and report["counts"]["stops"], report
    assert report["memoryBytes"]["first"] > 1 << 20 and report["descriptors"]["first"] > 10, report
