"""`pubctl bench pub|sub|latency`: how much one's own overlay carries from here, and how fast.

`pub` publishes as fast as it is settled, `sub` counts what arrives, `latency` publishes one at a time and
waits for it, at another broker if one likes. All goes through the client library: the figures are those of a
program, and under a topic of its own, so that nobody else's traffic is touched.
"""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Any

import click

from tools.pubctl.channel import locate
from tools.pubctl.commands import Command
from tools.pubctl.failure import TIMEOUT, Failure
from tools.pubctl.invocation import Duration, current
from tools.pubctl.output import Column, Result, count, show
from tools.pubctl.progress import bar

TOPIC = "pubctl-bench"
RATE_COLUMNS = (
    Column("what", style="bold"),
    Column("broker"),
    Column("publications", "", count, right=True),
    Column("bytes", "payload", count, right=True),
    Column("seconds", "", lambda value: f"{value:.2f}", right=True),
    Column("rate_s", "a second", count, right=True),
    Column("dropped", "", count, right=True),
)
LATENCY_COLUMNS = (
    Column("what", style="bold"),
    Column("broker"),
    Column("to"),
    Column("publications", "", count, right=True),
    Column("bytes", "payload", count, right=True),
    *(
        Column(f"{name}_ms", f"{name} ms", lambda value: f"{value:.2f}", right=True)
        for name in ("p50", "p95", "p99", "max")
    ),
)
topic_option = click.option(
    "--topic", default=TOPIC, show_default=True, help="Attribute `topic` of the publications."
)
size_option = click.option(
    "--bytes", "size", type=click.IntRange(min=0), default=256, show_default=True, help="Of a payload."
)
STEPS = 100


@click.command(cls=Command)
@click.option(
    "--count", "number", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many."
)
@size_option
@topic_option
def pub(number: int, size: int, topic: str) -> None:
    """Publish as fast as it goes and wait until everything is settled."""
    import grapevine

    invocation = current()
    payload, attributes = bytes(size), {"topic": topic}
    with grapevine.connect(locate(invocation.broker), timeout=invocation.timeout_s) as client:
        client.advertise(f"topic = '{topic}'", timeout=invocation.timeout_s)
        began = time.monotonic()
        with bar(invocation, "publishing", STEPS) as step:
            for n in range(number):
                client.publish(attributes, payload)
                if not n % max(1, number // STEPS):
                    step("")
            client.flush(timeout=max(60.0, invocation.timeout_s))
        seconds = time.monotonic() - began
        row = _rate("pub", client.broker, number, size, seconds, 0)
    show(lambda: Result([row], RATE_COLUMNS))


@click.command(cls=Command)
@click.option(
    "--for", "seconds", type=Duration(), default=10.0, show_default=True, help="How long, from the first."
)
@click.option("--filter", "filter", help="Count what matches this.  [default: the topic]")
@topic_option
def sub(seconds: float, filter: str | None, topic: str) -> None:
    """Count what arrives, from the first publication on."""
    import grapevine

    invocation = current()
    with grapevine.connect(locate(invocation.broker), timeout=invocation.timeout_s) as client:
        subscription = client.subscribe(filter or f"topic = '{topic}'", timeout=invocation.timeout_s)
        invocation.say(f"waiting for the first, at {client.broker}")
        got = size = 0
        began = until = 0.0
        while not began or (left := until - time.monotonic()) > 0:
            batch = subscription.next_batch(10_000, timeout=0.2 if not began else min(0.2, left))
            if batch and not began:
                began = time.monotonic()
                until = began + seconds
            got += len(batch)
            size += sum(len(message.payload) for message in batch)
        row = _rate("sub", client.broker, got, size // max(got, 1), time.monotonic() - began, client.dropped)
    show(lambda: Result([row], RATE_COLUMNS))


@click.command(cls=Command)
@click.option("--to", help="Broker where the subscriber is.  [default: the same]")
@click.option(
    "--count", "number", type=click.IntRange(min=1), default=1_000, show_default=True, help="How many."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=200.0, show_default=True, help="A second."
)
@size_option
def latency(to: str | None, number: int, rate: float, size: int) -> None:
    """From `publish` to the reader, one publication at a time; both ends are here, so one clock counts."""
    import grapevine

    invocation = current()
    topic = f"{TOPIC}-{secrets.token_hex(4)}"
    took: list[float] = []
    with (
        grapevine.connect(locate(to or invocation.broker), timeout=invocation.timeout_s) as reader,
        grapevine.connect(locate(invocation.broker), timeout=invocation.timeout_s) as publisher,
        bar(invocation, "measuring", number) as step,
    ):
        arrivals = reader.subscribe(f"topic = '{topic}'", timeout=invocation.timeout_s)
        publisher.advertise(f"topic = '{topic}'", timeout=invocation.timeout_s)
        began = time.monotonic()
        for n in range(number):
            time.sleep(max(0.0, began + n / rate - time.monotonic()))
            sent = time.perf_counter()
            publisher.publish({"topic": topic}, bytes(size))
            if arrivals.next(timeout=max(5.0, invocation.timeout_s)) is None:
                raise Failure(f"publication {n + 1} did not arrive in time", TIMEOUT)
            took.append(time.perf_counter() - sent)
            step("")
        row = {"what": "latency", "broker": publisher.broker, "to": reader.broker, "publications": number}
    row |= {"bytes": size, **quantiles(took)}
    show(lambda: Result([row], LATENCY_COLUMNS))


def quantiles(took_s: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(took_s, n=100, method="inclusive") if len(took_s) > 1 else took_s * 99
    found = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(took_s)}
    return {f"{name}_ms": round(1000 * value, 3) for name, value in found.items()}


def _rate(what: str, broker: str, number: int, size: int, seconds: float, dropped: int) -> dict[str, Any]:
    return {
        "what": what,
        "broker": broker,
        "publications": number,
        "bytes": size,
        "seconds": round(seconds, 3),
        "rate_s": round(number / seconds, 1) if seconds else 0.0,
        "dropped": dropped,
    }
