"""`pubctl channel demo`: the acts in their order, and their end, whatever happens."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grapevine
from pipeline.session import available
from tools.pubctl.demo.emergencies import PATIENCE_S, Audience, Driving, Play, Scene
from tools.pubctl.demo.helsinki import City
from tools.pubctl.demo.town_page import page
from tools.pubctl.failure import FAILED, Failure
from tools.pubctl.interrupts import in_one_piece, interruptible, undisturbed
from tools.pubctl.invocation import Invocation, current
from tools.pubctl.jobs import job
from tools.pubctl.output import Column, Result, emit

STOP_S = 3.0
COLUMNS = (
    Column("broker", style="bold"),
    Column("placed", "nearest to", right=True),
    Column("ended", "serves at the end", right=True),
)


def perform(
    subscribers: int,
    seconds: float,
    rate: float,
    seed: int,
    file: Path,
    data: Path | None,
    master: str | None,
) -> None:
    invocation = current()
    if not available():
        raise Failure("channels need Spark: pip install 'grapevine-broker[spark]'", FAILED)
    if data is None and os.environ.get("GRAPEVINE_DATA"):
        data = Path(os.environ["GRAPEVINE_DATA"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    city = City(seed, subscribers, data)
    with interruptible(), ExitStack() as ending:
        with in_one_piece():
            scene = Scene(Path(tempfile.mkdtemp(prefix="grapevine-channels-")))
            ending.callback(_end, scene)
        play = Play(city, scene, seconds, rate)
        summary = _perform(invocation, ending, play, master, file)
        rows = [
            {"broker": name, "placed": summary["placed"].get(name, 0), "ended": ended}
            for name, ended in summary["ended"].items()
        ]
        emit(invocation, Result(rows, COLUMNS, summary, footer=_story(summary)))
    if not summary["exact"]:
        raise Failure("not every row came once and in order", FAILED, told=True)


def _end(scene: Scene) -> None:
    with undisturbed():
        scene.crew.down(STOP_S)
        shutil.rmtree(scene.directory, ignore_errors=True)


def _perform(
    invocation: Invocation, ending: ExitStack, play: Play, master: str | None, file: Path
) -> dict[str, Any]:
    scene, city = play.scene, play.city
    invocation.say("starting six brokers ...")
    scene.crew.up(scene.topology)
    scene.create(city)
    spark = ending.enter_context(job("channels", master, **{"spark.scheduler.mode": "FAIR"}))
    keys = str(scene.keys)
    driver = ending.enter_context(grapevine.connect(scene.address, keys=keys, timeout=60))
    driving = Driving(spark, driver)
    ending.callback(driving.stop)
    driving.ready.wait(PATIENCE_S)
    invocation.say(f"{len(city.people)} subscribers ask, each at its nearest broker ...")
    audience = Audience(city, scene.address, scene.keys)
    _wait_for(audience)
    play.placed = dict(Counter(heard.broker for heard in audience.heard))
    client = ending.enter_context(grapevine.connect(scene.address, name="city", keys=keys, timeout=60))
    invocation.say("the first executions ...")
    play.warm_up()
    invocation.say("reports and walks; balancing begins in the middle ...")
    said = [0.0]

    def tell(reports: int, rows: int) -> None:
        if time.monotonic() > said[0] + 5:
            said[0] = time.monotonic()
            invocation.say(f"  {reports} reports, {rows} rows")

    play.run(audience, client, tell)
    audience.stop()
    summary = play.summary(audience)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(play, audience, summary))
    troubles = [text for text in driving.said if text.startswith("channel ")]
    for text in troubles:
        invocation.say(f"driver: {text}")
    more = {"delivered": summary["rows"], "page": str(file.absolute()), "troubles": troubles}
    return {**summary, **more}  # in JSON `rows` are the table's


def _wait_for(audience: Audience) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while audience.here < len(audience.heard):
        if time.monotonic() > deadline:
            raise Failure(f"{audience.here} of {len(audience.heard)} subscribers are there", FAILED)
        time.sleep(0.2)
    for heard in audience.heard:
        if heard.failure is not None:
            raise Failure(f"{heard.person.name}: {heard.failure}", FAILED)


def _story(summary: dict[str, Any]) -> str:
    verdict = "every one once and in order" if summary["exact"] else "NOT all once and in order"
    return (
        f"{summary['reports']} reports became {summary['rows']} rows for {summary['subscribers']} people, "
        f"{verdict}\n"
        f"{summary['moved']} subscribers moved: cov {summary['cov_nearest']} by nearest placement, "
        f"{summary['cov_balanced']} after balancing\npage: {summary['page']}"
    )
