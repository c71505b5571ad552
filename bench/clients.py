"""The same topic workloads end to end through real Python clients: ours, nats-py, redis-py, paho-mqtt.

Every library is used as its documentation shows, with its own batching and no tuning but the one that keeps
it from dropping what a reader has not taken yet. All subscribers of a workload run in one process.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from typing import Any

import grapevine
import grapevine.aio
from bench.content import Content, text
from bench.systems.base import Outcome, Ready, Workload
from bench.systems.grapevine import Grapevine
from bench.systems.mosquitto import Mosquitto
from bench.systems.nats import Nats
from bench.systems.redis import Redis
from bench.workloads import Topics

PENDING = 1 << 30
WAIT_S = 60.0


class GrapevineClient(Grapevine):
    def __init__(self) -> None:
        super().__init__("grapevine-py", clients={"queue": 10_000_000})

    def can(self, workload: Workload) -> bool:
        return isinstance(workload, Content) or not workload.fresh

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        return asyncio.run(self._subscribe(workload, ready))

    async def _subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        """Each client reads what it gets at one place."""
        clients, readers = [], []
        wanted = _wanted(workload)
        for place, (filters, _, _) in enumerate(wanted):
            client = await grapevine.aio.connect(self.addresses[-1], name=f"reader{place}", keys=False)
            clients.append(client)
            readers.append(await client.subscribe(filters[0]))
            for filter in filters[1:]:
                await client.subscribe(filter, into=readers[-1])
        ready()
        got = await asyncio.gather(
            *[self._read(reader, copies) for reader, (_, copies, _) in zip(readers, wanted, strict=True)]
        )
        ended = time.monotonic()
        for client in clients:
            await client.close()
        wrong = ""
        if isinstance(workload, Content):
            counted = [Counter(chain.from_iterable(m.subscriptions for m in each)) for each in got]
            if counted != [+Counter(matches) for _, _, matches in wanted]:
                wrong = "other subscriptions were served"
        return Outcome(ended, sum(copies for _, copies, _ in wanted), wrong)

    async def _read(self, subscription: Any, count: int) -> list[Any]:
        kept: list[Any] = []  # content, to be looked at after the clock has stopped
        while count > 0:
            batch = await subscription.next_batch(4096, WAIT_S)
            assert batch, f"{count} never came"
            count -= len(batch)
            if not batch[0].payload:
                kept += batch
        return kept

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        with grapevine.connect(self.addresses[0], name="writer", keys=False) as client:
            if isinstance(workload, Topics):
                topics = [{"topic": workload.topic(i)} for i in range(workload.topics)]
                attributes = [topics[i % len(topics)] for i in range(workload.publications)]
                payload = workload.payload
            else:
                attributes, payload = workload.publications, b""  # type: ignore[assignment]
            publish = client.publish
            publish({"topic": "nobody wants this"})
            client.flush(WAIT_S)
            go()
            for each in attributes:
                publish(each, payload)
            client.flush(WAIT_S)


def _wanted(workload: Workload) -> list[tuple[list[str], int, dict[int, int]]]:
    """Of each client its filters, how many messages it must see, and of content also each subscription."""
    if isinstance(workload, Topics):
        names = [", ".join(f"'{workload.topic(t)}'" for t in topics) for topics in workload.subscribers]
        return [([f"topic in ({some})"], n, {}) for some, n in zip(names, workload.expected, strict=True)]
    wanted = []
    for place in range(workload.connections):
        filters = [text(workload.filters[f]) for f in workload.of(place)]
        number = {f + 1: n for n, f in enumerate(workload.of(place), 1)}
        copies = workload.wanted(place).values()
        matches = Counter(number[f] for listed in copies for f in listed)
        wanted.append((filters, len(copies), dict(matches)))
    return wanted


def _library(module: str) -> str:
    """Why it cannot be used, or nothing."""
    return (
        "" if find_spec(module) else f"the Python package {module} is not installed (uv sync --group bench)"
    )


class NatsClient(Nats):
    name = "nats-py"

    def missing(self) -> str:
        return super().missing() or _library("nats")

    def version(self) -> str:
        return version("nats-py")

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        assert isinstance(workload, Topics)
        return asyncio.run(self._subscribe(workload, ready))

    async def _subscribe(self, workload: Topics, ready: Ready) -> Outcome:
        import nats

        total, done = sum(workload.expected), asyncio.Event()
        got = 0

        async def take(message: object) -> None:
            nonlocal got
            got += 1
            if got == total:
                done.set()

        clients = []
        for topics in workload.subscribers:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            for topic in topics:
                await client.subscribe(
                    workload.topic(topic), cb=take, pending_msgs_limit=PENDING, pending_bytes_limit=PENDING
                )
            await client.flush()
            clients.append(client)
        ready()
        await asyncio.wait_for(done.wait(), WAIT_S)
        ended = time.monotonic()
        for client in clients:
            await client.close()
        return Outcome(ended, total)

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        asyncio.run(self._publish(workload, go))

    async def _publish(self, workload: Topics, go: Callable[[], None]) -> None:
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        topics = [workload.topic(i) for i in range(workload.topics)]
        go()
        for i in range(workload.publications):
            await client.publish(topics[i % len(topics)], workload.payload)
        await client.flush(60)
        await client.close()


class RedisClient(Redis):
    name = "redis-py"

    def missing(self) -> str:
        return super().missing() or _library("redis")

    def version(self) -> str:
        return version("redis")

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        import redis

        assert isinstance(workload, Topics)
        readers = []
        for topics in workload.subscribers:
            reader = redis.Redis(port=self.port).pubsub(ignore_subscribe_messages=True)
            reader.subscribe(*[workload.topic(topic) for topic in topics])
            for _ in topics:
                reader.get_message(timeout=5)
            readers.append(reader)
        ready()
        threads = [
            threading.Thread(target=_take, args=(reader, count))
            for reader, count in zip(readers, workload.expected, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * WAIT_S)
        return Outcome(time.monotonic(), sum(workload.expected))

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        import redis

        assert isinstance(workload, Topics)
        client = redis.Redis(port=self.port)
        topics = [workload.topic(i) for i in range(workload.topics)]
        go()
        for first in range(0, workload.publications, workload.batch):
            pipeline = client.pipeline(transaction=False)
            for i in range(first, first + workload.batch):
                pipeline.publish(topics[i % len(topics)], workload.payload)
            pipeline.execute()


def _take(reader: Any, count: int) -> None:
    for _ in reader.listen():
        count -= 1
        if not count:
            return


class PahoClient(Mosquitto):
    name = "paho-mqtt"

    def missing(self) -> str:
        return super().missing() or _library("paho")

    def version(self) -> str:
        return version("paho-mqtt")

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        assert isinstance(workload, Topics)
        total, done, granted = sum(workload.expected), threading.Event(), threading.Semaphore(0)
        lock, got = threading.Lock(), 0

        def take(client: object, data: object, message: object) -> None:
            nonlocal got
            with lock:
                got += 1
                if got == total:
                    done.set()

        clients = []
        for topics in workload.subscribers:
            client = self._client()
            client.on_message = take
            client.on_subscribe = lambda *unused: granted.release()
            client.connect("127.0.0.1", self.port)
            client.loop_start()
            client.subscribe([(workload.topic(topic), 0) for topic in topics])
            assert granted.acquire(timeout=10)
            clients.append(client)
        ready()
        assert done.wait(2 * WAIT_S), f"{total - got} never came"
        ended = time.monotonic()
        for client in clients:
            client.disconnect()
        return Outcome(ended, total)

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        client = self._client()
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        topics = [workload.topic(i) for i in range(workload.topics)]
        go()
        for i in range(workload.publications):
            last = client.publish(topics[i % len(topics)], workload.payload)
        last.wait_for_publish(2 * WAIT_S)
        client.disconnect()

    def _client(self) -> Any:
        import paho.mqtt.client as mqtt

        return mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)


CLIENTS = (GrapevineClient, NatsClient, RedisClient, PahoClient)
