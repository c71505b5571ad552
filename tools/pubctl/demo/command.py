"""`pubctl demo`: the story of one overlay, from its start to the judgement over every delivery.

Brokers are real processes, publishers and subscribers use the client library. The numbers and the progress
go to stderr, the result to stdout. However it ends, its processes end with it, unless it is told to keep
them.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import click

import grapevine
from tools.pubctl.answers import reports
from tools.pubctl.channel import Channel
from tools.pubctl.commands import Command
from tools.pubctl.demo.audience import Listener, Published, Speaker
from tools.pubctl.demo.collected import collect
from tools.pubctl.demo.live import Live
from tools.pubctl.demo.scene import FEEDS, SEATS, TRACED
from tools.pubctl.demo.stage import Stage, interruptible, undisturbed
from tools.pubctl.failure import FAILED, Failure
from tools.pubctl.graph import Graph, add_rates, build
from tools.pubctl.invocation import Duration, Invocation, current
from tools.pubctl.local import start_clients
from tools.pubctl.output import Column, Result, console, count, emit
from tools.pubctl.picture import svg
from tools.pubctl.topo import subtitle
from tools.pubctl.topology import read
from tools.pubctl.tracing import draw, followed

SETTLE_S = 30.0
QUIET_S = 0.4


def whole(number: int) -> str:
    return f"{number:,}"


COLUMNS = (
    Column("name", "subscriber", style="bold"),
    Column("broker"),
    Column("filter"),
    Column("expected", "", whole, right=True),
    Column("received", "", whole, right=True),
    Column("exact", "", lambda exact: "yes" if exact else "NO"),
    Column("p50_ms", "p50 ms", right=True),
    Column("p99_ms", "p99 ms", right=True),
)


@click.command(cls=Command)
@click.option("--brokers", default=7, show_default=True, type=click.IntRange(1, 127))
@click.option(
    "--for", "seconds", type=Duration(), default=10.0, show_default="10s", help="How long to publish."
)
@click.option(
    "--rate", default=1200.0, show_default=True, help="Publications a second, of all feeds together."
)
@click.option("--seed", default=1, show_default=True, help="Of what is published.")
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), default="overlay.svg", show_default=True
)
@click.option("--keep", is_flag=True, help="Leave the overlay running.")
def demo(brokers: int, seconds: float, rate: float, seed: int, picture: Path, keep: bool) -> None:
    """Real brokers, publishers and subscribers on this machine, and what became of every publication."""
    invocation = current()
    stage = Stage(brokers)
    play = Play(invocation, stage, seconds, rate, seed)
    kept = False
    with interruptible():
        try:
            result = play.run(picture)
            emit(invocation, result)
            if keep:
                _keep(invocation, stage)
                kept = True
        finally:
            if not kept:
                with undisturbed():
                    play.stop()
                    stage.down()
                    stage.clear()
    if not result.extra["exact"]:
        raise Failure("not everything arrived exactly once and in order", FAILED, told=True)


def _keep(invocation: Invocation, stage: Stage) -> None:
    stage.write_topology()
    start_clients(stage.crew, read(stage.file))
    invocation.say(
        "the overlay is left running, with slow feeds; to look at it and to end it:\n"
        f"  export GRAPEVINE_KEYS={stage.keys} PUBCTL_BROKER={stage.address(1)}\n"
        "  pubctl status --watch\n"
        f"  pubctl local down {stage.file} --dir {stage.directory}"
    )


class Play:
    def __init__(self, invocation: Invocation, stage: Stage, seconds: float, rate: float, seed: int) -> None:
        self.invocation = invocation
        self.stage = stage
        self.seconds = seconds
        self.rate = rate
        self.published: Published = {}
        for feed in FEEDS:
            chance = Random(f"{feed.name} {seed}")
            amount = max(1, int(seconds * rate * feed.share))
            self.published[feed.name] = [feed.make(chance) for _ in range(amount)]
        self.listeners: list[Listener] = []
        self.speakers: list[Speaker] = []
        self.graph: Graph | None = None

    @property
    def total(self) -> int:
        return sum(map(len, self.published.values()))

    def run(self, picture: Path) -> Result:
        with Live(self.invocation, self.total) as live:
            began = time.monotonic()
            live.step("starting brokers", len(self.stage.topology.brokers))
            self.stage.up(live.advance)
            live.step("subscribing", len(SEATS) + len(FEEDS))
            self._enter(live)
            started_s = time.monotonic() - began
            self._perform(live)
            published_s = time.monotonic() - began - started_s
            path = self._trace()
            self._draw(picture)
            judged = [listener.judge(self.published) for listener in self.listeners]
            self.stop()
        if path is not None and self.invocation.output == "table":
            self.invocation.say(
                "\nthe path of one publication: " + " ".join(f"{k}={v}" for k, v in TRACED.items())
            )
            draw(console(self.invocation, err=True), path.rows)
            self.invocation.say("")
        return self._result(judged, picture, started_s, published_s)

    # --- acts -------------------------------------------------------------------------------------

    def _enter(self, live: Live) -> None:
        """Everybody attaches; all subscriptions and advertisements are confirmed by the whole overlay."""
        stage = self.stage
        for seat in SEATS:
            self.listeners.append(Listener(seat, stage.address(seat.broker), stage.keys))
            live.advance(seat.name)
        for feed in FEEDS:
            client = grapevine.connect(stage.address(feed.broker), name=feed.name, keys=stage.keys)
            client.advertise(feed.advertisement)
            self.speakers.append(Speaker(client, self.published[feed.name], self.rate * feed.share))
            live.advance(feed.name)

    def _perform(self, live: Live) -> None:
        live.step("publishing", self.total)
        for speaker in self.speakers:
            speaker.start()
        with Channel(self.stage.address(1), 5.0, self.stage.keys) as channel:
            look = Look(channel, self.seconds)
            while any(speaker.is_alive() for speaker in self.speakers):
                time.sleep(0.1)
                look.perhaps()
                live.numbers(self._sent(), self._received(), look.brokers)
            self.graph = look.graph
            live.step("settling", len(self.speakers))
            for speaker in self.speakers:
                speaker.finish(SETTLE_S)
                live.advance(speaker.name)
            self._await_quiet()
            live.numbers(self._sent(), self._received(), look.brokers)

    def _await_quiet(self) -> None:
        """Settled means that the clients have it; their readers may still be at it."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if all(time.monotonic() - listener.last_at > QUIET_S for listener in self.listeners):
                return
            time.sleep(0.05)

    def _sent(self) -> int:
        return sum(speaker.sent for speaker in self.speakers)

    def _received(self) -> int:
        return sum(listener.count for listener in self.listeners)

    def _trace(self) -> Result | None:
        with Channel(self.stage.address(FEEDS[0].broker), 5.0, self.stage.keys) as channel:
            return followed(channel, TRACED, FEEDS[0].name)

    def _draw(self, picture: Path) -> None:
        with Channel(self.stage.address(1), 5.0, self.stage.keys) as channel:
            reply = channel.ask("topo.show")
        graph = build(reports(reply), reply.missing)
        if self.graph is not None:  # the rates are those of the middle of the run
            for pair, edge in graph.edges.items():
                if (busy := self.graph.edges.get(pair)) is not None:
                    edge.down_s, edge.up_s = busy.down_s, busy.up_s
            for name, node in graph.nodes.items():
                if (seen := self.graph.nodes.get(name)) is not None:
                    node.in_s, node.out_s, node.load = seen.in_s, seen.out_s, seen.load
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(svg(graph, "A grapevine overlay at work", subtitle(graph)))

    def stop(self) -> None:
        """Everybody goes, also in the middle of it; brokers would wait for clients that are still there."""
        for speaker in self.speakers:
            speaker.stop()
        for listener in self.listeners:
            listener.stop()

    # --- the end ----------------------------------------------------------------------------------

    def _result(
        self, judged: list[dict[str, Any]], picture: Path, started_s: float, published_s: float
    ) -> Result:
        time.sleep(0.3)  # the writers of the logs are threads of their own
        logs = collect(self.stage.directory)
        exact = all(row["exact"] for row in judged) and not any(s.undelivered for s in self.speakers)
        deliveries = sum(row["received"] for row in judged)
        extra = {
            "brokers": len(self.stage.topology.brokers),
            "publications": self._sent(),
            "deliveries": deliveries,
            "exact": exact,
            "started_s": round(started_s, 2),
            "published_s": round(published_s, 2),
            "undelivered": {s.name: s.undelivered for s in self.speakers if s.undelivered},
            "delivery_logs": logs,
            "picture": str(picture.absolute()),
        }
        return Result(judged, COLUMNS, extra, footer=story(extra))


def story(extra: dict[str, Any]) -> str:
    logs = extra["delivery_logs"]
    events = {event: count(amount) for event, amount in logs["events"].items()}
    verdict = "every one exactly once and in order" if extra["exact"] else "NOT all exactly once and in order"
    return (
        f"{extra['brokers']} brokers were ready after {extra['started_s']:.1f} s; "
        f"{count(extra['publications'])} publications in {extra['published_s']:.1f} s became "
        f"{count(extra['deliveries'])} deliveries, {verdict}\n"
        f"delivery logs: {events['accept']} accepted, {events['forward']} forwarded over links, of these "
        f"{count(logs['pure_forwards'])} by brokers without a subscriber; {events['deliver']} delivered\n"
        f"picture: {extra['picture']}"
    )


class Look:
    """Looks at the overlay twice in the middle of the run, for the rates, and once a second for the eye."""

    def __init__(self, channel: Channel, seconds: float) -> None:
        self.channel = channel
        self.began = time.monotonic()
        self.seconds = seconds
        self.graph: Graph | None = None
        self.brokers: list[dict[str, Any]] = []
        self._before: Graph | None = None
        self._at = 0.0

    def perhaps(self) -> None:
        now = time.monotonic()
        if now - self._at < 1.0:
            return
        try:
            reply = self.channel.ask("topo.show")
        except Failure:
            return
        self.brokers = reports(reply)
        graph = build(self.brokers, reply.missing)
        if self._before is not None:
            add_rates(graph, self._before, now - self._at)
            if self.graph is None or now - self.began < 0.8 * self.seconds:
                self.graph = graph
        self._before, self._at = graph, now
