"""`pubctl pub k=v...`: publish, once or many times at a rate."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tools.pubctl import attributes, lines
from tools.pubctl.channel import locate
from tools.pubctl.commands import Command, agreed
from tools.pubctl.failure import USAGE, Failure, of_library
from tools.pubctl.invocation import Duration, Invocation, current
from tools.pubctl.output import Column, Result, show
from tools.pubctl.progress import bar

if TYPE_CHECKING:
    from grapevine import Client

COLUMNS = (
    Column("client", style="bold"),
    Column("broker"),
    Column("published", right=True),
    Column("until"),
    Column("seconds", right=True),
)
STEP_S = 0.02


HELP = f"""Publish the attributes given as NAME=VALUE, and wait until they are settled.

{attributes.HOW}

With - alone, every line of standard input is a publication: words like these, or JSON, also as `pubctl sub -o
jsonl` prints it."""


@click.command(cls=Command, help=HELP)
@click.argument("words", metavar="NAME=VALUE...", nargs=-1)
@click.option("--payload", help="Text to carry; @FILE for a file's content, - for standard input.")
@click.option("--payload-bytes", type=click.IntRange(min=0), default=0, help="Carry so many bytes instead.")
@click.option(
    "--count", default=1, show_default=True, type=click.IntRange(min=0), help="How often; 0: forever."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Publications a second.")
@click.option(
    "--until", type=click.Choice(("accepted", "persisted", "settled")), default="settled", show_default=True
)
@click.option("--advertise", metavar="FILTER", help="Advertise this first.  [default: anything]")
@click.option("--durable", is_flag=True, help="Keep it on the first broker's disk until it is settled.")
@click.option("--number", metavar="NAME", help="Add an attribute that counts from 1.")
@click.option("--name", help="The publisher's name.")
@click.option("--after", type=Duration(), default=0.0, help="Wait so long before.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def pub(
    words: tuple[str, ...],
    payload: str | None,
    payload_bytes: int,
    count: int,
    rate: float | None,
    until: str,
    advertise: str | None,
    durable: bool,
    number: str | None,
    name: str | None,
    after: float,
    yes: bool,
) -> None:
    import grapevine

    from_input = words == ("-",)
    content = {} if from_input else attributes.read(words)
    if not content and not number and not from_input:
        agreed("publish without any attribute, which only a filter like `true` matches", False, yes)
    body = bytes(payload_bytes) if payload_bytes else read_payload(payload)
    time.sleep(after)
    invocation = current()
    began = time.monotonic()
    try:
        with grapevine.connect(locate(invocation.broker), name=name, timeout=invocation.timeout_s) as client:
            if advertise:
                client.advertise(advertise, timeout=invocation.timeout_s)
            if from_input:
                sent = _publish_lines(client, rate, durable)
            else:
                sent = _publish(invocation, client, content, body, count, rate, durable, number)
            client.flush(timeout=invocation.timeout_s, until=until)  # type: ignore[arg-type]
            row = {"client": client.name, "broker": client.broker, "published": sent, "until": until}
    except ValueError as error:
        if isinstance(error, grapevine.Error):
            raise of_library(error) from None
        raise Failure(str(error), USAGE) from None
    row["seconds"] = round(time.monotonic() - began, 3)
    show(lambda: Result([row], COLUMNS))


def _publish(
    invocation: Invocation,
    client: Client,
    content: dict[str, attributes.Value],
    body: bytes,
    count: int,
    rate: float | None,
    durable: bool,
    number: str | None,
) -> int:
    """Publishes `count` times, at the rate given; an interrupt ends it early."""
    began, sent = time.monotonic(), 0
    with bar(invocation, "publishing", count or 1) as step:
        try:
            while not count or sent < count:
                if rate is not None and sent >= (time.monotonic() - began) * rate + 1:
                    time.sleep(min(STEP_S, 1 / rate))
                    continue
                sent += 1
                client.publish(content | {number: sent} if number else content, body, durable)
                if count > 1 and (sent % max(1, count // 100) == 0):
                    step("")
        except KeyboardInterrupt:
            pass
    return sent


def _publish_lines(client: Client, rate: float | None, durable: bool) -> int:
    """Everything that standard input has; an interrupt ends it early."""
    began, sent = time.monotonic(), 0
    try:
        for content, body in lines.read(sys.stdin):
            if rate is not None:
                time.sleep(max(0.0, began + sent / rate - time.monotonic()))
            client.publish(content, body, durable)
            sent += 1
    except KeyboardInterrupt:
        pass
    return sent


def read_payload(given: str | None) -> bytes:
    if given is None:
        return b""
    if given == "-":
        return sys.stdin.buffer.read()
    if given.startswith("@"):
        try:
            return Path(given[1:]).read_bytes()
        except OSError as error:
            raise Failure(f"{given[1:]}: {error.strerror}", USAGE) from None
    return given.encode()
