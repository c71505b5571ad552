"""`pubctl demo`: the story of one overlay, from its start to the judgement over every delivery.

Brokers are real processes and subscribers use the client library. Feeds are Spark jobs, and Spark collects
the delivery logs and writes the report; where Spark is not installed, clients publish and the logs are
counted here. The numbers and the progress go to stderr, the result to stdout. However it ends, its processes
end with it, unless it is told to keep them.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import click

import grapevine
from pipeline.session import available
from tools.pubctl.answers import reports
from tools.pubctl.attributes import equals_all
from tools.pubctl.channel import Channel
from tools.pubctl.commands import Command
from tools.pubctl.demo.audience import NUMBER, Listener, Published
from tools.pubctl.demo.collected import awaited, collect
from tools.pubctl.demo.feeds import SETTLE_S, ClientFeeds, Feeds, SparkFeeds
from tools.pubctl.demo.live import Live
from tools.pubctl.demo.scene import FEEDS, SEATS, TRACED
from tools.pubctl.demo.stage import Stage
from tools.pubctl.failure import FAILED, Failure
from tools.pubctl.graph import Graph, add_rates, build
from tools.pubctl.interrupts import in_one_piece, interruptible, undisturbed
from tools.pubctl.invocation import Duration, Invocation, current
from tools.pubctl.jobs import troubles
from tools.pubctl.local import start_clients
from tools.pubctl.output import Column, Result, console, count, emit
from tools.pubctl.picture import svg
from tools.pubctl.topo import subtitle
from tools.pubctl.topology import read
from tools.pubctl.tracing import draw, followed

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
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="The page.  [beside the picture]"
)
@click.option("--plain", is_flag=True, help="Without Spark, also where it is installed.")
@click.option("--keep", is_flag=True, help="Leave the overlay running.")
@click.option("--web", is_flag=True, help="With --keep: open the live page of it.")
def demo(
    brokers: int,
    seconds: float,
    rate: float,
    seed: int,
    picture: Path,
    report: Path | None,
    plain: bool,
    keep: bool,
    web: bool,
) -> None:
    """Real brokers, publishers and subscribers on this machine, and what became of every publication."""
    invocation = current()
    if not plain and not available():
        plain = True
        invocation.say(
            "Spark is not installed (pip install 'grapevine-broker[spark]'): clients publish, no report page"
        )
    page = None if plain else report or picture.with_name("report.html")
    with interruptible(), ExitStack() as ending:
        with in_one_piece():
            stage = Stage(brokers)
            play = Play(invocation, stage, seconds, rate, seed)
            ending.callback(_end, play, stage)
        with troubles():
            result = play.run(picture, page)
        emit(invocation, result)
        if keep:
            _keep(invocation, stage)
            ending.pop_all()
            if web:
                _open_page(stage)
        else:
            invocation.say(
                "to watch one live: pubctl demo --keep --web, or pubctl web beside brokers of yours"
            )
    if not result.extra["exact"]:
        raise Failure("not everything arrived exactly once and in order", FAILED, told=True)


def _end(play: Play, stage: Stage) -> None:
    with undisturbed():
        try:
            play.stop()
        finally:
            stage.down()
            stage.clear()


def _keep(invocation: Invocation, stage: Stage) -> None:
    stage.write_topology()
    start_clients(stage.crew, read(stage.file))
    invocation.say(
        "the overlay is left running, with slow feeds; to look at it and to end it:\n"
        f"  export GRAPEVINE_KEYS={stage.keys} PUBCTL_BROKER={stage.address(1)}\n"
        "  pubctl web                # the live page; pubctl top in the terminal\n"
        f"  pubctl local down {stage.file} --dir {stage.directory}"
    )


def _open_page(stage: Stage) -> None:
    """The live page of what was left running, until Ctrl-C; the brokers stay."""
    from tools.pubctl.web import serve
    from tools.web.source import BrokerSource

    source = BrokerSource(stage.address(1), 1.0, keys=stage.keys)
    serve(source, "127.0.0.1", 0, 1.0, False, (), None, False, "", True)


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
            self.published[feed.name] = [{NUMBER: n, **feed.make(chance)} for n in range(1, amount + 1)]
        self.listeners: list[Listener] = []
        self.feeds: Feeds | None = None
        self.graph: Graph | None = None

    @property
    def total(self) -> int:
        return sum(map(len, self.published.values()))

    def run(self, picture: Path, page: Path | None) -> Result:
        """Without a page, without Spark."""
        with Live(self.invocation, self.total) as live:
            began = time.monotonic()
            made = ClientFeeds if page is None else SparkFeeds
            feeds = self.feeds = made(self.stage, self.published, self.rate)
            live.step("starting brokers", len(self.stage.topology.brokers))
            self.stage.up(live.advance)
            live.step("subscribing", len(SEATS))
            self._enter(live)
            live.step("starting feeds", len(FEEDS))
            feeds.enter()
            started_s = time.monotonic() - began
            sent = self._perform(live, feeds)
            published_s = time.monotonic() - began - started_s
            path = self._trace()
            self._draw(picture)
            judged = [listener.judge(self.published) for listener in self.listeners]
            self._dismiss()
            live.step("reading the logs", 1)
            awaited(self.stage.directory, sent, sum(row["received"] for row in judged))
            logs = self._logs(feeds, page)
            self.stop()
        if self.invocation.output == "table":
            self.invocation.say(
                "\nthe path of one publication: " + " ".join(f"{k}={v}" for k, v in TRACED.items())
            )
            if not self.invocation.quiet:
                draw(console(self.invocation, err=True), path.rows)
            self.invocation.say("")
        extra = self._summary(judged, sent, feeds.undelivered(), started_s, published_s)
        extra |= {"delivery_logs": logs, "picture": str(picture.absolute())}
        extra |= {"report": str(page.absolute()) if page else None}
        return Result(judged, COLUMNS, extra, footer=story(extra))

    # --- acts -------------------------------------------------------------------------------------

    def _enter(self, live: Live) -> None:
        """Everybody attaches; all subscriptions and advertisements are confirmed by the whole overlay."""
        stage = self.stage
        for seat in SEATS:
            self.listeners.append(Listener(seat, stage.address(seat.broker), stage.keys))
            live.advance(seat.name)

    def _perform(self, live: Live, feeds: Feeds) -> int:
        """How many publications went out."""
        live.step("publishing", self.total)
        feeds.start()
        with Channel(self.stage.address(1), 5.0, self.stage.keys) as channel:
            look = Look(channel)
            while feeds.going():
                time.sleep(0.1)
                look.perhaps()
                if sent := feeds.sent(look.brokers):
                    live.numbers(sent, self._received(), look.brokers)
            self.graph = look.graph
            live.step("settling", 1)
            feeds.finish()
            self._await_quiet()
            sent = feeds.sent(look.brokers)
            live.numbers(sent, self._received(), look.brokers)
        if not sent:
            raise Failure("; ".join(feeds.undelivered().values()) or "nothing was published", FAILED)
        return sent

    def _await_quiet(self) -> None:
        """Settled means that the clients have it; their readers may still be at it."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if all(time.monotonic() - listener.last_at > QUIET_S for listener in self.listeners):
                return
            time.sleep(0.05)

    def _received(self) -> int:
        return sum(listener.count for listener in self.listeners)

    def _trace(self) -> Result:
        address = self.stage.address(FEEDS[0].broker)
        with (
            Channel(address, 5.0, self.stage.keys) as channel,
            grapevine.connect(address, name="curious", keys=self.stage.keys) as client,
        ):
            client.advertise(equals_all(TRACED))
            return followed(channel, TRACED, client.name)

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

    def _dismiss(self) -> None:
        for listener in self.listeners:
            listener.stop()
        self.listeners = []

    def stop(self) -> None:
        """Everybody goes, also in the middle of it; brokers would wait for clients that are still there."""
        self._dismiss()
        if self.feeds is not None:
            self.feeds.stop()
            self.feeds = None

    # --- the end ----------------------------------------------------------------------------------

    def _logs(self, feeds: Feeds, page: Path | None) -> dict[str, Any]:
        if page is None or not isinstance(feeds, SparkFeeds) or feeds.spark is None:
            return collect(self.stage.directory)
        from tools.pubctl.demo.reported import report

        return report(feeds.spark, self.stage.directory, page)

    def _summary(
        self,
        judged: list[dict[str, Any]],
        sent: int,
        undelivered: dict[str, str],
        started_s: float,
        published_s: float,
    ) -> dict[str, Any]:
        return {
            "brokers": len(self.stage.topology.brokers),
            "publications": sent,
            "deliveries": sum(row["received"] for row in judged),
            "exact": all(row["exact"] for row in judged) and not undelivered and sent == self.total,
            "started_s": round(started_s, 2),
            "published_s": round(published_s, 2),
            "undelivered": undelivered,
        }


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
        f"picture: {extra['picture']}" + (f"\nreport: {extra['report']}" if extra["report"] else "")
    )


class Look:
    """Looks at the overlay once a second, for the eye; the busiest second is kept for the picture."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.graph: Graph | None = None
        self._most = 0.0
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
            busy = sum(edge.rate for edge in graph.edges.values())
            if self.graph is None or busy > self._most:
                self.graph, self._most = graph, busy
        self._before, self._at = graph, now
