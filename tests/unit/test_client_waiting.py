"""Who waits for messages is woken by them, and in time."""

from __future__ import annotations

import asyncio
from math import inf

from grapevine.client.waiting import Reader


def run(story):
    asyncio.run(asyncio.wait_for(story(), 5))


def test_all_who_wait_are_woken():
    async def story():
        reader = Reader(asyncio.get_running_loop())
        tasks = [asyncio.create_task(reader.wait(inf)) for _ in range(3)]
        await asyncio.sleep(0)
        reader.wake()
        await asyncio.gather(*tasks)

    run(story)


def test_a_deadline_wakes_and_a_later_one_does_not_move_it():
    async def story():
        loop = asyncio.get_running_loop()
        reader = Reader(loop)
        began = loop.time()
        late = asyncio.create_task(reader.wait(began + 60))
        soon = asyncio.create_task(reader.wait(began + 0.05))
        await soon
        assert 0.04 < loop.time() - began < 2
        late.cancel()

    run(story)


def test_the_timer_of_an_earlier_wait_does_not_end_a_later_one():
    async def story():
        loop = asyncio.get_running_loop()
        reader = Reader(loop)
        first = asyncio.create_task(reader.wait(loop.time() + 0.05))
        await asyncio.sleep(0)
        reader.wake()
        await first
        began = loop.time()
        await reader.wait(began + 0.15)
        assert loop.time() - began > 0.14

    run(story)


def test_who_gives_up_waiting_is_forgotten():
    async def story():
        reader = Reader(asyncio.get_running_loop())
        task = asyncio.create_task(reader.wait(inf))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not reader._waiting

    run(story)


def test_no_timer_is_left_behind():
    async def story():
        loop = asyncio.get_running_loop()
        reader = Reader(loop)
        task = asyncio.create_task(reader.wait(loop.time() + 60))
        await asyncio.sleep(0)
        reader.stop()
        await task
        assert reader._timer is None

    run(story)
