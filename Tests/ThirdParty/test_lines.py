"""The tests' own waiting: a task that is told to end ends."""

import asyncio

import pytest

from lines import Unanswered, in_time


def test_a_task_that_is_cancelled_as_its_answer_comes_ends():
    async def run():
        answer = asyncio.Event()

        async def phone():
            while True:
                await in_time(answer.wait(), "an answer")
                answer.clear()

        life = asyncio.create_task(phone())
        await asyncio.sleep(0)
        # The worst moment: the answer is there, and the phone has not taken it.
        answer.set()
        life.cancel()
        done, _ = await asyncio.wait([life], timeout=10)
        assert done and life.cancelled()

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_every_turn_of_a_cancellation_ends_a_task(turns):
    async def run():
        lines = asyncio.StreamReader()

        async def phone():
            while True:
                await in_time(lines.readline(), "a line")

        life = asyncio.create_task(phone())
        await asyncio.sleep(0)
        lines.feed_data(b"{}\n")
        for _ in range(turns):
            await asyncio.sleep(0)
        life.cancel()
        done, _ = await asyncio.wait([life], timeout=10)
        assert done and life.cancelled()

    asyncio.run(run())


def test_what_is_not_there_in_time_is_told(monkeypatch):
    monkeypatch.setattr("lines.PATIENCE", 0.01)
    with pytest.raises(Unanswered, match="a line"):
        asyncio.run(in_time(asyncio.sleep(60), "a line"))
