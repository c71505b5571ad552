"""One seed is one run: under any hash seed, with and without the codec, in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def digest(hash_seed: str, *words: str, run: tuple[str, str] = ("quick", "4")) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "tools.simulator", "run", run[0], "--seed", run[1], "-o", "json", *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(json.loads(ran.stdout)["digest"])


def test_the_digest_depends_on_the_seed_alone() -> None:
    plain = digest("1")
    assert digest("2") == plain
    assert digest("3", "--codec") == plain


def test_topics_are_said_in_one_order_under_every_hash_seed() -> None:
    ring = ("chord-quick", "10")
    assert digest("1", run=ring) == digest("2", run=ring) == digest("3", run=ring)


def test_another_seed_is_another_run() -> None:
    from tools.simulator.scenario import find
    from tools.simulator.seeds import simulate

    assert simulate(find("quick"), "", None, 4).digest != simulate(find("quick"), "", None, 5).digest


def test_the_command_fails_when_the_oracle_does(capsys: pytest.CaptureFixture[str]) -> None:
    from tools.simulator.__main__ import main

    assert main(["run", "quick", "--seed", "0", "--mutant", "tables-kept"]) == 1
    assert "replay: pubctl sim run quick --seed 0 --mutant tables-kept" in capsys.readouterr().out
    assert main(["run", "no-such-scenario"]) == 2


def test_a_change_of_one_rule_shows_in_the_digests(capsys: pytest.CaptureFixture[str]) -> None:
    """Two trees are compared by `diff`: the same words from the same code, others when a rule is broken."""
    from tools.simulator.__main__ import main
    from tools.simulator.mutants import mutated

    words = ["digests", "quick", "calm", "--seeds", "0:2"]
    assert main(words) == 0
    plain = capsys.readouterr().out
    assert [line.split()[:2] for line in plain.splitlines()[:-1]] == [
        ["calm", "0"],
        ["calm", "1"],
        ["quick", "0"],
        ["quick", "1"],
    ]
    assert main([*words, "--codec", "--jobs", "2"]) == 0
    assert capsys.readouterr().out == plain
    with mutated("tables-kept"):
        main(words)
    assert capsys.readouterr().out != plain
