"""The state directory: whole records, one owner, an incarnation that rises."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.errors import Failure
from daemon.state import State, replace_file


def test_a_record_comes_back(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    state.write("neighbours", [("b1", ("tcp://a:1",))])
    kind = tuple[tuple[str, tuple[str, ...]], ...]
    assert state.read("neighbours", kind, ()) == (("b1", ("tcp://a:1",)),)
    assert state.read("nothing", int, 7) == 7
    state.close()


def test_the_incarnation_follows_the_clock_and_never_falls(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert [state.incarnation(wall_s) for wall_s in (100.7, 50.0, 200.0, 200.0)] == [100, 101, 200, 201]
    state.close()


def test_one_directory_has_one_owner(tmp_path: Path) -> None:
    first = State(tmp_path)
    with pytest.raises(Failure, match="is used by the daemon with pid"):
        State(tmp_path)
    first.close()
    State(tmp_path).close()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    state = State(tmp_path)
    (tmp_path / "incarnation.json").write_text('"many"')
    with pytest.raises(Failure, match=r"incarnation\.json is damaged: restore it"):
        state.incarnation(1.0)
    state.close()


def test_a_failed_write_leaves_the_old_record_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "record"
    replace_file(path, b"old")
    with pytest.raises(TypeError):
        replace_file(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    blocked = tmp_path / "directory"
    blocked.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(blocked, b"x")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".directory")] == []
