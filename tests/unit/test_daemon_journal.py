"""The journal on a real directory: the thread, group commit, full and failing disks, kill, scrubbing."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon import journal_files
from daemon.journal import JournalThread, groups
from daemon.journal_files import DiskFiles
from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.index import header_of
from overlay.journal.names import segments
from overlay.journal.record import PUBS, SETTLED, read_body
from overlay.journal.recovery import recover
from overlay.journal.scrubbing import Scrub
from overlay.journal.writing import DROP, GROUP_BYTES, SEAL, Append


def bodies(files: DiskFiles, incarnation: int = 9) -> dict[int, bytes]:
    found = recover(files, incarnation)
    kept = {}
    for segment, entries in found.entries:
        data = files.read(segment.name)
        for entry in entries:
            if entry.items:
                body = read_body(data, header_of(entry, segment.number))
                assert body is not None
                kept[entry.position] = bytes(body)
    return kept


def wait_for(thread: JournalThread, position: int, timeout_s: float = 10.0) -> list[tuple[int, int]]:
    refused: list[tuple[int, int]] = []
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        select.select([thread.eventfd], [], [], 0.5)
        for written in thread.take():
            refused += written.refused
            if written.done >= position:
                return refused
        assert not thread.failed, thread.failed
    raise AssertionError(f"{position} was not persisted")


@pytest.fixture
def thread(tmp_path: Path):  # type: ignore[no-untyped-def]
    files = DiskFiles(tmp_path / "journal")
    thread = JournalThread(files, recover(files, 1).writer)
    thread.start()
    yield thread
    thread.close()
    files.close()


def test_what_is_persisted_is_there_after_a_restart(thread: JournalThread) -> None:
    for position in range(1, 200):
        thread.put([Append(SETTLED, position, 1, b"%d" % position)])
    wait_for(thread, 199)
    assert thread.writer.groups < 199, "groups of what has come meanwhile"
    thread.close()
    assert bodies(DiskFiles(thread.files.directory)) == {p: b"%d" % p for p in range(1, 200)}  # type: ignore[attr-defined]


def test_segments_are_sealed_and_dropped_in_their_turn(thread: JournalThread) -> None:
    thread.put([Append(SETTLED, 1, 1, b"one"), Append(SEAL, 2, 0), Append(SETTLED, 2, 1, b"two")])
    thread.put([Append(SEAL, 3, 0), Append(SETTLED, 3, 1, b"three"), Append(DROP, 2, 0)])
    wait_for(thread, 3)
    assert [segment.first for segment in segments(thread.files.names())] == [2, 3]
    thread.close()
    assert bodies(thread.files) == {2: b"two", 3: b"three"}  # type: ignore[arg-type]


def test_a_failed_sync_ends_it_and_is_not_tried_again(
    thread: JournalThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def failing(file: int) -> None:
        calls.append(file)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", failing)
    thread.put([Append(SETTLED, 1, 1, b"x")])
    thread.join(5)
    assert not thread.is_alive() and "cannot be synced" in thread.failed
    assert thread.take() == [] and len(calls) == 1


def test_a_short_write_on_a_full_disk_counts_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles(tmp_path)
    writer = recover(files, 1).writer
    writer.commit([Append(SETTLED, 1, 1, b"kept")])
    size = files.size(writer.segment.name)
    real = os.pwritev

    def short(file: int, pieces: list[bytes], at: int) -> int:
        return real(file, [b"".join(pieces)[:20]], at)

    def full(file: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", short)
        patch.setattr(os, "pwrite", full)
        written = writer.commit([Append(PUBS, 2, 5, bytes(4) + b"publications")])
    assert written.refused == [(2, 6)] and written.done == 6
    assert files.size(writer.segment.name) == size
    assert writer.commit([Append(SETTLED, 7, 1, b"later")]).refused == []
    assert bodies(files) == {1: b"kept", 7: b"later"}


def test_the_reserve_is_for_records_that_make_room(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    writer = recover(files, 1).writer
    writer.reserve = files.free_bytes() + (1 << 40)
    written = writer.commit([Append(PUBS, 1, 3, bytes(4)), Append(SETTLED, 4, 1, b"frees")])
    assert written.refused == [(1, 3)] and written.done == 4
    assert bodies(files) == {4: b"frees"}


def test_errors_of_the_disk_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DiskFiles(tmp_path)

    def raising(number: int) -> Callable[..., int]:
        def call(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        return call

    for number, expected in ((errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, DiskFailed)):
        monkeypatch.setattr(journal_files.os, "pwritev", raising(number))
        with pytest.raises(expected):
            files.append("x", [b"data"])


def test_scrubbing_finds_rot_once(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    writer = recover(files, 1).writer
    writer.commit([Append(SETTLED, p, 1, b"%d" % p * 50) for p in range(1, 20)])
    writer.commit([Append(SEAL, 20, 0), Append(SETTLED, 20, 1, b"tail")])
    sealed = segments(files.names())[:1]
    entry = writer.entries  # of the new segment
    assert entry[-1].position == 20
    name = files.directory / sealed[0].name
    data = bytearray(name.read_bytes())
    data[data.index(b"77777") + 2] ^= 1
    name.write_bytes(data)
    scrub = Scrub(files)
    found = [hole for _ in range(40) for hole in scrub.step(sealed, 400)]
    assert [(hole.first, hole.last) for hole in found] == [(7, 7)] and scrub.rounds >= 1


def test_groups_are_bounded() -> None:
    todo = [Append(PUBS, n, 1, bytes(GROUP_BYTES // 2)) for n in range(1, 8)]
    assert [len(group) for group in groups(todo)] == [2, 2, 2, 1]
    assert groups([]) == []


WRITER = """
import os, sys, select
from pathlib import Path
from daemon.journal import JournalThread
from daemon.journal_files import DiskFiles
from overlay.journal.recovery import recover
from overlay.journal.record import SETTLED
from overlay.journal.writing import Append, SEAL
files = DiskFiles(Path(sys.argv[1]))
found = recover(files, int(sys.argv[2]))
thread = JournalThread(files, found.writer)
thread.start()
position = found.next
print("next", position, flush=True)
while True:
    group = []
    for _ in range(1 + position % 7):
        group.append(Append(SETTLED, position, 1, b"%d" % position * (1 + position % 90)))
        position += 1
    if position % 50 < 5:
        group.append(Append(SEAL, position, 0))
    thread.put(group)
    select.select([thread.eventfd], [], [], 1)
    for written in thread.take():
        print("done", written.done, flush=True)
"""


def test_killed_again_and_again_it_keeps_what_it_said(tmp_path: Path) -> None:
    """kill -9 at random moments: everything said to be on disk is there, byte by byte."""
    acknowledged = 0
    for life in range(1, 9):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(life)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = 0
        for line in process.stdout:
            word, number = line.split()
            if word == "next":
                assert int(number) > acknowledged
            else:
                acknowledged = max(acknowledged, int(number))
                lines += 1
            if lines >= 5 * life:
                break
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            if len(line.split()) == 2 and line.endswith("\n"):
                acknowledged = max(acknowledged, int(line.split()[1]))
        process.wait()
    kept = bodies(DiskFiles(tmp_path), 99)
    assert all(kept[p] == b"%d" % p * (1 + p % 90) for p in range(1, acknowledged + 1))
