"""What brokers say to each other, step by step, as the files under testdata have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.interaction import check

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_brokers_say_what_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, request.config.getoption("--rewrite"))


def test_another_word_is_seen_and_written_on_request(tmp_path: Path) -> None:
    original = FILES[0].read_text()
    path = tmp_path / "other.txt"
    path.write_text(original.replace("SyncDone", "SyncMade", 1))
    with pytest.raises(AssertionError, match="other words"):
        check(path, rewrite=False)
    check(path, rewrite=True)
    assert path.read_text() == original
