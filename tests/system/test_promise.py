"""One run each of the situations in which settled publications were once lost without a word; `make proof`
plays ten."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.system.promise import SITUATIONS


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_settled_and_missing_was_told(tmp_path: Path, situation: str) -> None:
    verdict = SITUATIONS[situation](tmp_path, Random(1))
    assert not verdict.wrong, verdict.line()
    assert len(verdict.settled) >= 20, "too little was settled to mean anything"
