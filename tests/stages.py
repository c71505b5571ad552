"""`make test`: the stages, each with its time and its share of the budget.

Stages that keep to one core run two at a time, and what they print comes when they end; those with real
processes, which measure time, run alone.

Rules: standard library only (it also makes the environment, so it runs before there is one); a stage that
fails does not stop the next; a stage without tests is named and does not fail; the last line is pytest's own
closing line, over all stages. The budgets add up to 40 minutes on two cores (see docs/contributing.md).
Where real processes share a machine, a few failed tests are run once more: those that pass then do
not fail the run, but are counted and named as unsteady. `make proof` gives no second try.
"""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / ".cache" / "stages"
NOTHING_COLLECTED = 5
FAILED_TESTS = 1  # pytest's exit codes
FEW = 3  # more failures than these are no accident of a busy machine


@dataclass(frozen=True)
class Stage:
    name: str
    budget_s: int
    arguments: tuple[str, ...] = ()
    tries: int = 1
    one_core: bool = False  # runs beside another such stage


# Tests that need Spark or a booted systemd are marked, wherever they stand, and have stages of their own.
PLAIN = ("-m", "not spark and not nspawn")
STAGES = (
    Stage("setup", 120),
    Stage("sim", 570, (*PLAIN, "tests/sim"), one_core=True),
    Stage("unit", 240, (*PLAIN, "tests/unit", "tests/paper"), one_core=True),
    Stage("model", 20, (*PLAIN, "tests/model"), one_core=True),
    Stage("fuzz", 20, (*PLAIN, "tests/fuzz"), one_core=True),
    Stage("system", 840, (*PLAIN, "tests/system"), tries=2),
    Stage("spark", 340, ("-m", "spark", "tests"), tries=2),
    Stage("browser", 200, ("tests/web",), tries=2),
    Stage("nspawn", 50, ("-m", "nspawn", "tests"), tries=2),
)


@dataclass
class Outcome:
    stage: Stage
    seconds: float = 0.0
    ok: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    unsteady: list[str] = field(default_factory=list)


def read_counts(report: Path) -> dict[str, int]:
    """Test counts of one junit file, in pytest's words."""
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        for key in totals:
            totals[key] += int(suite.get(key, 0))
    bad = totals["failures"] + totals["errors"]
    return {"passed": totals["tests"] - bad - totals["skipped"], "failed": bad, "skipped": totals["skipped"]}


def read_failed(report: Path) -> list[str]:
    """The failed tests of one junit file, as pytest names them on its command line."""
    cases = ElementTree.parse(report).getroot().iter("testcase")
    bad = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return [f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}" for case in bad]


def run_stage(stage: Stage, uv: str, sync: str) -> Outcome:
    print(f"\n== {stage.name}{', printed when it ends' if stage.one_core else ''} ==", flush=True)
    began = time.monotonic()
    outcome = Outcome(stage)
    if stage.name == "setup":
        outcome.ok = subprocess.run(shlex.split(sync), cwd=ROOT).returncode == 0
    else:
        outcome.ok, outcome.counts, outcome.unsteady = run_pytest(stage, uv)
    outcome.seconds = time.monotonic() - began
    return outcome


def run_pytest(stage: Stage, uv: str) -> tuple[bool, dict[str, int], list[str]]:
    """Whether the stage passed, its counts, and the tests that passed at their second try only."""
    arguments = [text for text in stage.arguments if not text.startswith("tests") or (ROOT / text).exists()]
    if len(arguments) < len(stage.arguments) and not any(text.startswith("tests") for text in arguments):
        return True, {}, []  # its folder has no file yet
    report = REPORTS / f"{stage.name}.xml"
    code, counts = pytest_once(uv, report, arguments, stage.name if stage.one_core else None)
    unsteady: list[str] = []
    if code == FAILED_TESTS and stage.tries > 1 and 0 < counts["failed"] <= FEW:
        failed = read_failed(report)
        print(f"\n== {stage.name}, the second try of {len(failed)} ==", flush=True)
        code, again = pytest_once(uv, report.with_suffix(".again.xml"), failed)
        if code == 0 and again["passed"] == len(failed):
            unsteady = failed
            counts["passed"] += counts["failed"]
            counts["failed"] = 0
    if code == NOTHING_COLLECTED:
        return True, {}, []
    if code and not counts.get("failed"):
        counts["failed"] = 1  # the run itself broke: that is a failure, whatever the tests said
    return not counts.get("failed"), counts, unsteady


def pytest_once(
    uv: str, report: Path, arguments: list[str], header: str | None = None
) -> tuple[int, dict[str, int]]:
    """With a header, what it prints is kept until it ends: another stage runs beside it."""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [uv, "run", "--no-sync", "pytest", "-q", f"--junitxml={report}", *arguments]
    pipes = (subprocess.PIPE, subprocess.STDOUT) if header else (None, None)
    run = subprocess.run(command, cwd=ROOT, stdout=pipes[0], stderr=pipes[1], text=True)
    if header:
        print(f"\n== {header} ==\n{run.stdout}", end="", flush=True)
    return run.returncode, read_counts(report) if report.exists() else {"failed": 1}


def run_all(stages: list[Stage], uv: str, sync: str) -> Iterator[Outcome]:
    """In their order; neighbours that keep to one core two at a time. Nothing runs without its setup."""
    for (_, one_core), group in itertools.groupby(stages, lambda s: (s.name == "setup", s.one_core)):
        with ThreadPoolExecutor(2 if one_core else 1) as pool:
            outcomes = list(pool.map(lambda stage: run_stage(stage, uv, sync), group))
        yield from outcomes
        if outcomes[0].stage.name == "setup" and not outcomes[0].ok:
            return


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def closing_line(outcomes: list[Outcome]) -> str:
    total = {word: sum(o.counts.get(word, 0) for o in outcomes) for word in ("passed", "failed", "skipped")}
    return ", ".join(f"{number} {word}" for word, number in total.items())


def print_table(outcomes: list[Outcome], spent: float) -> None:
    print(f"\n{'stage':<10}{'time':>8}{'budget':>8}  result")
    for outcome in outcomes:
        tests = ", ".join(f"{n} {word}" for word, n in outcome.counts.items() if n)
        result = tests or ("ok" if outcome.stage.name == "setup" else "no tests")
        late = "  over budget" if outcome.seconds > outcome.stage.budget_s else ""
        result = result if outcome.ok else f"FAILED {tests}".rstrip()
        times = f"{clock(outcome.seconds):>8}{clock(outcome.stage.budget_s):>8}"
        print(f"{outcome.stage.name:<10}{times}  {result}{late}")
        for test in outcome.unsteady:
            print(f"{'':<26}  unsteady (passed at the second try): {test}")
    print(f"{'all':<10}{clock(spent):>8}{clock(sum(s.budget_s for s in STAGES)):>8}")


def main(names: list[str]) -> int:
    known = [stage.name for stage in STAGES]
    for name in names:
        if name not in known:
            print(f"no stage {name!r}; there are: {' '.join(known)}", file=sys.stderr)
            return 2
    uv, sync = os.environ.get("UV", "uv"), os.environ.get("SYNC", "uv sync --locked")
    began = time.monotonic()
    outcomes = list(run_all([s for s in STAGES if not names or s.name in ("setup", *names)], uv, sync))
    spent = time.monotonic() - began
    print_table(outcomes, spent)
    print(f"\n{closing_line(outcomes)} in {spent:.2f}s")
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
