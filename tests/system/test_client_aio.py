"""The asyncio client against real daemons: the same promises on an event loop."""

from __future__ import annotations

import asyncio

import pytest

import grapevine
from grapevine import aio
from tests.system.overlay import Overlay


async def read(subscription: aio.Subscription, count: int, timeout: float = 10.0) -> list[int]:
    got: list[int] = []
    while len(got) < count:
        batch = await subscription.next_batch(count - len(got), timeout)
        if not batch:
            break
        got += [m.sequence for m in batch]
    return got


def test_publish_subscribe_flush(overlay: Overlay) -> None:
    b1 = overlay.start("b1")

    async def scenario() -> None:
        async with aio.connect(b1.address, "quotes", keys=b1.keys) as publisher:
            reader = await aio.connect(b1.address, "desk", keys=b1.keys)
            subscription = await reader.subscribe("volume > 1")
            await publisher.advertise("class = 'STOCK'")
            for n in range(4):
                assert await publisher.publish({"class": "STOCK", "volume": n}, b"x") == n + 1
            await publisher.flush(30)
            assert await read(subscription, 2) == [3, 4]
            assert await subscription.next(timeout=0.05) is None
            with pytest.raises(grapevine.NotAllowed):
                publisher.publish_nowait({"class": "NEWS"})
            await subscription.unsubscribe()
            with pytest.raises(grapevine.Closed):
                await subscription.next(timeout=1)
            await reader.close()
        with pytest.raises(grapevine.Closed):
            await publisher.publish({"class": "STOCK"})

    asyncio.run(scenario())


def test_many_at_once_through_small_windows(overlay: Overlay) -> None:
    b1 = overlay.start("b1")

    async def scenario() -> None:
        async with (
            aio.connect(b1.address, keys=b1.keys, publish_window=64) as publisher,
            aio.connect(b1.address, keys=b1.keys, receive_window=32) as reader,
        ):
            subscription = await reader.subscribe("n >= 0")

            async def publish() -> None:
                for n in range(5_000):
                    await publisher.publish({"n": n})

            task = asyncio.create_task(publish())
            got = []
            async for message in subscription:
                got.append(message.sequence)
                if len(got) == 5_000:
                    break
            await task
            assert got == list(range(1, 5_001))

    asyncio.run(scenario())


def test_who_leaves_a_loop_finds_the_rest_later(overlay: Overlay) -> None:
    b1 = overlay.start("b1")

    async def scenario() -> None:
        async with aio.connect(b1.address, keys=b1.keys, receive_window=100) as client:
            subscription = await client.subscribe("n >= 0")
            for n in range(300):
                await client.publish({"n": n})
            got: list[int] = []
            while len(got) < 300:
                async for message in subscription:
                    got.append(message.sequence)
                    if len(got) % 7 == 0 or len(got) == 300:
                        break
                if len(got) < 300 and (other := await subscription.next(timeout=10)):
                    got.append(other.sequence)
            assert got == list(range(1, 301))

    asyncio.run(scenario())


def test_full_window_is_told_where_nobody_can_wait(overlay: Overlay) -> None:
    b1 = overlay.start("b1")

    async def scenario() -> None:
        async with aio.connect(b1.address, keys=b1.keys, publish_window=2) as publisher:
            publisher.publish_nowait({"n": 1})
            publisher.publish_nowait({"n": 2})
            with pytest.raises(asyncio.QueueFull):
                publisher.publish_nowait({"n": 3})
            await publisher.flush(30)
            publisher.publish_nowait({"n": 3})

    asyncio.run(scenario())


def test_fail_over(overlay: Overlay) -> None:
    b1, b2 = overlay.start("b1"), overlay.start("b2", "b1")
    b3 = overlay.start("b3", "b1")

    async def scenario() -> None:
        async with (
            aio.connect([b2.address, b3.address], "quotes", keys=b1.keys) as publisher,
            aio.connect(b1.address, "desk", keys=b1.keys) as reader,
        ):
            subscription = await reader.subscribe("n >= 0")
            for n in range(2_000):
                await publisher.publish({"n": n})
                if n == 1_000:
                    await publisher.flush(5, until="accepted")
                    b2.kill()
            with pytest.raises(grapevine.Undelivered):  # what is sent again may have been owed behind it
                await publisher.flush(90)  # not before the killed one is given up
            assert publisher.partial == ("b2",)
            assert publisher.broker == "b3"
            assert await read(subscription, 2_000) == list(range(1, 2_001))

    asyncio.run(scenario())


def test_nobody_there_and_cancellation(overlay: Overlay) -> None:
    b1 = overlay.start("b1")

    async def scenario() -> None:
        with pytest.raises(grapevine.Unreachable):
            await aio.connect("tcp://127.0.0.1:1", keys=False, timeout=0.3)
        async with aio.connect(b1.address, keys=b1.keys) as client:
            subscription = await client.subscribe("n > 0")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(subscription.next(), 0.1)
            await client.publish({"n": 1})
            assert await subscription.next(5) is not None

    asyncio.run(scenario())
