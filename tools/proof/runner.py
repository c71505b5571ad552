"""Runs claims one after the other, each in a process group of its own.

Rules: a result that passed on this tree is not got again unless asked for; a claim whose programs are missing
is skipped and says which; what the command prints goes to its log, and its stdout is judged; a claim over its
time limit, or an interrupt, ends its whole group.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from tools.proof.claims import Claim
from tools.proof.expectation import judge
from tools.proof.ledger import Ledger, Result, Verdict

Talk = Callable[[str], None]


def end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run_command(claim: Claim, root: Path, log: Path) -> tuple[int, str, list[str]]:
    """Exit code, stdout, and why the run itself went wrong, if it did."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = ["bash", "-o", "pipefail", "-c", claim.command]
    with log.open("w") as talk:
        process = subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=talk, text=True, start_new_session=True
        )
        try:
            stdout, trouble = process.communicate(timeout=claim.limit_s)[0], []
        except subprocess.TimeoutExpired:
            end_group(process)
            stdout, trouble = process.communicate()[0], [f"not done after {claim.limit_s:.0f} s"]
        except BaseException:
            end_group(process)
            raise
        talk.write(stdout)
    return process.returncode, stdout, trouble


def prove(claim: Claim, root: Path, ledger: Ledger) -> Result:
    began = time.monotonic()
    log = ledger.log_path(claim.id)
    verdict: Verdict
    missing = [program for program in claim.needs if shutil.which(program) is None]
    if missing:
        verdict, reasons = "skipped", [f"{program} is not installed" for program in missing]
    else:
        code, stdout, reasons = run_command(claim, root, log)
        reasons = reasons or judge(claim.expect, code, stdout)
        verdict = "failed" if reasons else "passed"
    finished_at = datetime.now(UTC).isoformat(timespec="seconds")
    seconds = round(time.monotonic() - began, 3)
    return Result(claim.id, claim.command, verdict, seconds, tuple(reasons), finished_at, str(log))


def run(claims: list[Claim], root: Path, ledger: Ledger, again: bool, talk: Talk) -> Iterator[Result]:
    for number, claim in enumerate(claims, 1):
        stored = None if again else ledger.get(claim.id, claim.command)
        head = f"[{number}/{len(claims)}] {claim.id}"
        if stored is not None and stored.verdict == "passed":
            talk(f"{head}: passed before ({stored.finished_at})")
            yield stored
            continue
        talk(f"{head}: running, about {claim.estimate_s:.0f} s")
        result = prove(claim, root, ledger)
        ledger.put(result)
        talk(
            f"{head}: {result.verdict} in {result.seconds:.1f} s"
            + "".join(f"\n    {r}" for r in result.reasons)
        )
        yield result
