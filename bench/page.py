"""What does the live page cost: its own process, a broker that is asked, and the browser that shows it?

A recording of many brokers, all of whose counters move by chance, is replayed at one pulse a second to the
page process while one browser has the page open. Processor time is that of the page process alone and, for
frames, of all of Chromium's processes. The broker's part is a core with one neighbour that stands for all
others and answers with recorded pulses: the time from the question to the encoded answer.
`--brokers 1000 --seconds 60` is the claim; the last line is JSON. Without chromium its rows are null.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil

from grapevine.wire import decode, encode
from grapevine.wire.messages import CensusAnswer, CensusRequest, Command
from overlay.links.session import Kind
from tests.unit.test_administration import Wires
from tests.unit.web.pulses import beat, link
from tests.web.recordings import BEGAN, binary, write

CHROMIUM = shutil.which("chromium")
QUESTIONS = 20
# An hour of pulses in which every row is new, through the page's own code.
REPLAYED = """() => {
  const { model } = grapevine, rows = [...model.rows.values()], links = [...model.linkRows.values()];
  const moved = (row) => row.map((v, n) => (n > 1 && typeof v === "number" ? v + Math.random() : v));
  for (let n = 0; n < 3600; n += 1) {
    const { total } = model;
    model.takePulse({ t: model.t + 1, b: rows.map(moved), l: links.map(moved), total, whole: false });
  }
}"""


def moving(count: int) -> Any:
    """Every counter grows by chance: no row of a pulse is what it was."""
    random, before = Random(1), dict[str, list[int]]()

    def change(second: int, here: dict[str, Any]) -> None:
        for name, row in here["beats"].items():
            known = before.setdefault(name, [0] * 8)
            for at in range(8):
                known[at] += random.randrange(200)
            row[6], row[7], row[8], row[20] = known[:4]
            row[12] = random.random()
            for n, one in enumerate(row[19]):
                one[2], one[3] = known[4 + n % 4], known[4 + (n + 1) % 4]

    return change


def broker_ms(count: int) -> float:
    """The median time on the loop for one question, with everybody else behind one neighbour."""
    wires = Wires()
    wires.broker("a")
    wires.broker("b", "a")
    core = wires.cores["a"]
    wires.dead.add("b")  # its answers come from here
    admin = wires.outside("a", Kind.ADMIN)
    pulses = [
        beat(f"broker-{n}", 1000 + n, link("b1", n, n), link("b2", n, n), accepted=n)
        for n in range(count - 1)
    ]
    reports = tuple(json.dumps(pulse, separators=(",", ":")).encode() for pulse in pulses)
    times = []
    for number in range(QUESTIONS):
        began = time.perf_counter()
        core.receive(admin, Command(number, "pulse", {}), wires.now)
        out = core.flush(wires.now)
        request, (far,) = next((m, links) for m, links in out.sends if isinstance(m, CensusRequest))
        out.clear()
        spent = time.perf_counter() - began
        frame = encode(CensusAnswer(request.origin, request.incarnation, request.number, reports))
        began = time.perf_counter()
        core.receive(far, decode(frame), wires.now)
        out = core.flush(wires.now)
        answers = [encode(message) for message, _ in out.sends]
        out.clear()
        times.append(spent + time.perf_counter() - began)
        assert len(answers[0]) > 100 * (count - 1), "the answer has everybody"
    return 1000 * statistics.median(times)


def browsed(served: Any, seconds: float) -> dict[str, Any]:
    """One browser, its frames and its heap; processor time of everything it started."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1600, "height": 900})
        page = context.new_page()
        opened = time.monotonic()
        page.goto(served.url)
        while not page.evaluate("globalThis.grapevine?.view?.stats.draws > 0"):
            time.sleep(0.05)
            assert time.monotonic() - opened < 60, "no picture within a minute"
        first_s = time.monotonic() - opened
        time.sleep(3)
        parents = [p for p in psutil.process_iter(["name"]) if "chrom" in (p.info["name"] or "")]
        before, cpu = page.evaluate("grapevine.reading()"), served.cpu_s()
        began, all_cpu = time.monotonic(), cpu_of(parents)
        time.sleep(seconds)
        after, took = page.evaluate("grapevine.reading()"), time.monotonic() - began
        spent = cpu_of(parents) - all_cpu
        frames = max(1, after["frames"] - before["frames"])
        session = context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"] / 2**20
        page.evaluate(REPLAYED)
        session.send("HeapProfiler.collectGarbage")
        long = session.send("Runtime.getHeapUsage")["usedSize"] / 2**20
        found = {
            "heap_3600_mb": long,
            "page_cpu_percent": 100 * (served.cpu_s() - cpu) / took,
            "page_mb": served.memory_mb(),
            "first_picture_s": first_s,
            "flow_script_ms": (after["flow"] - before["flow"]) / frames,
            "flow_frame_cpu_ms": 1000 * spent / frames,
            "frames_s": frames / took,
            "draw_ms": (after["draw"] - before["draw"]) / max(1, after["draws"] - before["draws"]),
            "heap_mb": heap,
            "pulses": page.evaluate("grapevine.model.past.length"),
        }
        browser.close()
        return found


def cpu_of(processes: list[Any]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total


def top_percent(brokers: int, seconds: float) -> float:
    """`pubctl top` in a terminal of its own: its share of a core while a recording of that many plays."""
    import os
    import pty
    import subprocess
    import threading

    with tempfile.TemporaryDirectory() as name:
        recording = write(Path(name) / "r.jsonl", int(seconds) + 30, binary(brokers), moving(brokers))
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "tools.pubctl.main", "top", "--replay", str(recording)]
        process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
        )
        threading.Thread(target=_swallow, args=(ours,), daemon=True).start()
        time.sleep(6)
        watched = psutil.Process(process.pid)
        before, began = watched.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, took = watched.cpu_times(), time.monotonic() - began
        process.terminate()
        process.wait(10)
        os.close(theirs)
        return 100 * (after.user + after.system - before.user - before.system) / took


def _swallow(terminal: int) -> None:
    import os

    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.page", description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only-broker", action="store_true")
    parser.add_argument("--top", type=int, default=0, metavar="BROKERS", help="only pubctl top, with so many")
    options = parser.parse_args(arguments)
    rows: dict[str, Any]
    if options.top:
        rows = {"brokers": options.top, "top_cpu_percent": top_percent(options.top, options.seconds)}
    else:
        rows = {"brokers": options.brokers, "broker_loop_ms": broker_ms(options.brokers)}
    if not options.only_broker and not options.top:
        rows |= measured(options)
    for name, value in rows.items():
        print(f"{name:<20} {value if value is None or isinstance(value, int) else round(value, 3)}")
    print(json.dumps({"rows": [rows]}))
    return 0


def measured(options: argparse.Namespace) -> dict[str, Any]:
    from tests.web.browsing import Served

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        sys.stderr.write("writing the recording\n")
        length = int(options.seconds) + 40
        recording = write(directory / "r.jsonl", length, binary(options.brokers), moving(options.brokers))
        assert BEGAN
        with Served(directory, "--replay", str(recording)) as served:
            if CHROMIUM is not None:
                return browsed(served, options.seconds)
            time.sleep(5)
            cpu, began = served.cpu_s(), time.monotonic()
            time.sleep(options.seconds)
            used = 100 * (served.cpu_s() - cpu) / (time.monotonic() - began)
            return {"page_cpu_percent": used, "page_mb": served.memory_mb(), "flow_frame_cpu_ms": None}


if __name__ == "__main__":
    sys.exit(main())
