"""Hubs for the judges. Each process of pytest starts its own, and so a file's tests share one."""

import collections
import random
import tempfile

import pytest

from hub import ORIGIN, Hub

#: The files whose few tests take longest. They begin first: a process would end long after the others with one of them.
LONGEST = ["test_swift_client.py", "test_openapi.py", "test_jobs.py"]


def pytest_collection_modifyitems(items):
    """Then those with the most tests, as pytest-xdist has it."""
    tests = collections.Counter(item.path.name for item in items)

    def place(item):
        name = item.path.name
        return LONGEST.index(name) if name in LONGEST else len(LONGEST), -tests[name], name

    items.sort(key=place)


@pytest.fixture(scope="session")
def hub():
    """A hub that tests share: they use users of their own."""
    with Hub() as running:
        running.wait_until_listening()
        yield running


@pytest.fixture(scope="module")
def strict():
    """A hub of little patience."""
    with Hub("--handshake-timeout", "1s", "--activity-timeout", "1s", "--pong-timeout", "1s",
             "--allowed-origins", ORIGIN, "--limits-send-queue-bytes", "64KiB") as running:
        running.wait_until_listening()
        yield running


@pytest.fixture
def user(request):
    """An id that no other test uses."""
    return f"{request.node.name}-{random.SystemRandom().randrange(1 << 40):x}"


@pytest.fixture
def folder():
    """A folder whose path is short, as those of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="judge-") as path:
        yield path


def pytest_terminal_summary(terminalreporter):
    """What tests have to tell, also those that pass: `record_property("report", text)`."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name == "report":
                    terminalreporter.write_line(f"{report.nodeid}: {text}")
