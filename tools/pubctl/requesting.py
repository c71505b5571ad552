"""`pubctl request NAME=VALUE...` and `pubctl reply FILTER`: ask, and answer."""

from __future__ import annotations

import subprocess
import time

import click

import grapevine
from tools.pubctl import attributes
from tools.pubctl.channel import locate
from tools.pubctl.commands import Command
from tools.pubctl.failure import NOT_FOUND, TIMEOUT, Failure
from tools.pubctl.invocation import Duration, current
from tools.pubctl.publishing import read_payload
from tools.pubctl.subscribing import LOOK_S, printer


@click.command(cls=Command)
@click.argument("words", metavar="NAME=VALUE...", nargs=-1, required=True)
@click.option("--payload", help="Text to carry; @FILE for a file's content, - for standard input.")
@click.option("--format", "template", metavar="TEXT", help="A line of one's own, as in `sub`.")
@click.option("--raw", is_flag=True, help="The payload of the reply alone.")
@click.option("--name", help="Who asks.")
def request(
    words: tuple[str, ...], payload: str | None, template: str | None, raw: bool, name: str | None
) -> None:
    """Publish a request and print the first reply; -t says how long to wait. Ends at once, with exit code 6,
    if nobody has subscribed to it."""
    invocation = current()
    write = printer(invocation, template, raw)
    asked, body = attributes.read(words), read_payload(payload)
    with grapevine.connect(locate(invocation.broker), name=name, timeout=invocation.timeout_s) as client:
        try:
            write(client.request(asked, body, invocation.timeout_s))
        except grapevine.NoResponders as error:
            raise Failure(str(error), NOT_FOUND) from None
        except grapevine.Timeout as error:
            raise Failure(str(error), TIMEOUT) from None


@click.command(cls=Command)
@click.argument("filter")
@click.option("--payload", help="Text to answer with; @FILE for a file's content.")
@click.option("--command", "shell", help="Answer with what this prints; it reads the request's payload.")
@click.option("--group", help="Share the requests with all who answer in this group.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@click.option("--for", "seconds", type=Duration(), help="End after this time.")
@click.option("--name", help="Who answers.")
def reply(
    filter: str,
    payload: str | None,
    shell: str | None,
    group: str | None,
    count: int | None,
    seconds: float | None,
    name: str | None,
) -> None:
    """Answer every request that matches FILTER, until interrupted."""
    invocation, fixed, answered = current(), read_payload(payload), 0
    deadline = None if seconds is None else time.monotonic() + seconds
    with grapevine.connect(locate(invocation.broker), name=name, timeout=invocation.timeout_s) as client:
        asked = client.subscribe(filter) if group is None else client.subscribe(filter, group=group)
        invocation.say(f"answers as {client.name} at {client.broker}")
        try:
            while (count is None or answered < count) and (deadline is None or time.monotonic() < deadline):
                message = asked.next(LOOK_S)
                if isinstance(message, grapevine.Message) and "reply.to" in message.attributes:
                    message.reply({}, fixed if shell is None else _output(shell, message.payload))
                    answered += 1
            client.flush(invocation.timeout_s)
        except KeyboardInterrupt:
            pass
        if isinstance(asked, grapevine.GroupSubscription):
            asked.close()
    invocation.say(f"{answered} answered")


def _output(shell: str, payload: bytes) -> bytes:
    return subprocess.run(shell, shell=True, input=payload, stdout=subprocess.PIPE, check=False).stdout
