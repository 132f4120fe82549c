"""Waiting for conditions, with a deadline. The one place that sleeps: between two looks at what nobody tells of."""

import asyncio
import os
import time

# Seconds that a condition may take to come true. Generous: it is reached only by failures.
PATIENCE = float(os.environ.get("PATIENCE", "30"))


def eventually(condition, what, timeout=None):
    """Calls `condition` until it returns something true, and returns that; fails after `timeout` seconds.

    `what` may be a function: what it says is then of the end, not of the beginning.
    """
    deadline = time.monotonic() + (PATIENCE if timeout is None else timeout)
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come true in time: {what() if callable(what) else what}")
        time.sleep(0.02)


async def becomes(condition, timeout=None):
    """Looks until `condition` returns something true, and returns that, or what it is after `timeout` seconds."""
    deadline = time.monotonic() + (PATIENCE if timeout is None else timeout)
    while not (found := condition()) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return found
