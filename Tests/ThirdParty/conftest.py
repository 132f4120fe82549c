"""Hubs for the judges. Each process of pytest starts its own, and so a file's tests share one."""

import random

import pytest

from hub import Hub


@pytest.fixture(scope="session")
def hub():
    """A hub that tests share: they use users of their own."""
    with Hub() as running:
        running.wait_until_listening()
        yield running


@pytest.fixture
def user(request):
    """An id that no other test uses."""
    return f"{request.node.name}-{random.SystemRandom().randrange(1 << 40):x}"
