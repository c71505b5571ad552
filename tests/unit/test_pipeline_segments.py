"""Segments of delivery logs: what is whole, what is torn, what is new, and what tells two segments apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.collect import Log, advanced, look
from pipeline.collection import Collection, Manifest
from pipeline.places import under
from pipeline.segments import Piece, groups, pieces
from pipeline.segments import look as look_at
from pipeline.trouble import NOT_FOUND, USAGE, Trouble


def segment(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(text)
    return path


def fresh(directory: Path, before: Manifest, broker: str = "b1") -> tuple[str, Manifest, int]:
    """What is new, as text, and what is known afterwards."""
    found = look([Log(broker, [directory])], before)
    read = b"".join(Path(p.path).read_bytes()[p.start : p.end] for p in found.fresh)
    return read.decode(), advanced(before, found), found.torn


def test_the_half_written_line_of_an_open_segment_waits(tmp_path: Path) -> None:
    path = segment(tmp_path, "b1-00000001.open", "one\ntwo\nthr")
    text, manifest, torn = fresh(tmp_path, Manifest())
    assert (text, torn) == ("one\ntwo\n", 0)
    path.write_text("one\ntwo\nthree\nfour\n")
    path.rename(path.with_suffix(".jsonl"))
    text, manifest, torn = fresh(tmp_path, manifest)
    assert (text, torn) == ("three\nfour\n", 0)
    assert fresh(tmp_path, manifest)[0] == ""


def test_the_torn_line_of_a_closed_segment_is_told_once(tmp_path: Path) -> None:
    segment(tmp_path, "b1-00000001.jsonl", "one\ntw")
    text, manifest, torn = fresh(tmp_path, Manifest())
    assert (text, torn) == ("one\n", 1)
    text, manifest, torn = fresh(tmp_path, manifest)
    assert (text, torn) == ("", 0)
    assert manifest.torn == 1


def test_a_broker_that_counts_from_one_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    segment(tmp_path, "b1-00000001.jsonl", "old\nlines\n")
    _, manifest, _ = fresh(tmp_path, Manifest())
    segment(tmp_path, "b1-00000001.jsonl", "new\nones\nand more\n")
    assert fresh(tmp_path, manifest)[0] == "new\nones\nand more\n"


def test_empty_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    segment(tmp_path, "b1-00000001.open", "")
    segment(tmp_path, "b1-00000002.open", "no newline yet")
    segment(tmp_path, "notes.jsonl", "x\n")
    segment(tmp_path, "b2-00000001.jsonl", "another broker's\n")
    assert fresh(tmp_path, Manifest())[0] == ""


def test_a_broker_without_a_log_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    segment(tmp_path / "b1", "b1-00000001.jsonl", "one\n")
    found = look([Log("b1", [tmp_path / "b1"]), Log("b2", [tmp_path / "b2"])], Manifest())
    assert list(found.looked_ns) == ["b1"]
    assert str(tmp_path / "b2") in found.missing["b2"]


def test_pieces_are_whole_lines_and_nothing_is_left_out(tmp_path: Path) -> None:
    lines = [f"{'x' * (n % 37)}{n}\n" for n in range(1000)]
    path = segment(tmp_path, "b1-00000001.jsonl", "".join(lines))
    found = look_at(path)
    assert found is not None
    cut = list(pieces(found, 0, piece_bytes=500))
    content = path.read_bytes()
    assert len(cut) > 10
    assert b"".join(content[p.start : p.end] for p in cut) == content
    assert all(content[p.end - 1 : p.end] == b"\n" for p in cut)
    assert [p for group in groups(cut, 2000) for p in group] == cut
    assert len(groups(cut, 2000)) < len(cut)
    assert groups([]) == []


def test_one_large_piece_is_a_group() -> None:
    assert groups([Piece("a", 0, 100), Piece("b", 0, 1)], 10) == [[Piece("a", 0, 100)], [Piece("b", 0, 1)]]


def test_directories_are_searched_for_logs(tmp_path: Path) -> None:
    segment(tmp_path / "h1" / "b1" / "state" / "deliveries", "b1-00000001.jsonl", "x\n")
    segment(tmp_path / "h2" / "b-2" / "state" / "deliveries", "b-2-00000001.open", "x\n")
    assert [log.broker for log in under([tmp_path])] == ["b-2", "b1"]
    (tmp_path / "h3").mkdir()
    with pytest.raises(Trouble, match="no delivery log under") as error:
        under([tmp_path / "h3"])
    assert error.value.code == NOT_FOUND
    with pytest.raises(Trouble) as error:
        under([])
    assert error.value.code == USAGE


def test_a_run_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with Collection(tmp_path) as collection:
        (collection.staging / "date=2026-01-01").mkdir(parents=True)  # and then it is killed
        assert Collection(tmp_path).runs() == []
        collection.commit(Manifest(run=1, events=5))
    assert (tmp_path / "run=000001" / "date=2026-01-01").is_dir()
    assert Collection(tmp_path).manifest == Manifest(run=1, events=5)
    (tmp_path / "_unfinished" / "date=2026-01-02").mkdir(parents=True)
    with Collection(tmp_path) as collection:
        assert not collection.staging.exists()


def test_two_collectors_do_not_write_at_once(tmp_path: Path) -> None:
    with Collection(tmp_path), pytest.raises(Trouble, match="another collect"):
        Collection(tmp_path).__enter__()
