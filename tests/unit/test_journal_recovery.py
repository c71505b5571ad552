"""Random lives of a journal on a disk that loses sectors, rots, misdirects and lies, against an oracle that
knows what was done to it.

What is acknowledged is remembered with its bytes. After each crash and recovery:
- nothing is recovered that was not written, byte by byte, at its position;
- everything acknowledged is recovered, or lies in a hole that is reported, or in a tail that is reported as
  torn (only if no later record or mark bears witness), or its disk lied about a sync;
- what is not acknowledged may be there only if all before it is;
- nothing is reported lost that was never acknowledged, beyond what the witnesses claim.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.journal import recovery
from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.judging import judge_tail
from overlay.journal.names import segments
from overlay.journal.record import HOLE, START, read_body
from overlay.journal.recovery import Unreadable, recover
from overlay.journal.scanning import scan
from overlay.journal.writing import DROP, SEAL, Append, Writer
from tools.simulator.sectors import SectorDisk

KIND = 2  # SETTLED: any small record


class Life:
    """A journal, the disk under it, and what its owner was told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SectorDisk(self.random)
        self.written: dict[int, bytes] = {}  # by position, what was last given to the writer there
        self.told: dict[int, bytes] = {}
        self.damaged = self.lied = False
        self.excused: set[int] = set()  # reported lost
        self.next = 1
        self.needed = 1
        self.start()

    def start(self) -> None:
        found = recover(self.disk, self.random.randrange(1, 1 << 40))
        self.writer: Writer = found.writer
        self.writer.reserve = 0
        self.check(found)
        self.next = found.next

    def check(self, found: recovery.Recovered) -> None:
        bodies: dict[int, bytes] = {}
        lost: set[int] = set()
        order = []
        for segment, entries in found.entries:
            data = self.disk.read(segment.name)
            for entry in entries:
                if entry.kind == HOLE:
                    lost.update(range(entry.position, entry.last + 1))
                elif entry.kind != START:
                    order.append(entry.position)
                    body = read_body(
                        data[: entry.offset + 56 + entry.length], recovery_header(entry, segment)
                    )
                    if body is None:  # rotten behind a good index: found when it is read
                        lost.update(range(entry.position, entry.last + 1))
                    else:
                        bodies[entry.position] = bytes(body)
        assert order == sorted(set(order)), "each position once, in order"
        for position, body in bodies.items():
            assert self.written.get(position) == body, f"position {position} is not what was written"
        for position in sorted(self.told):
            if position < self.needed or position in self.excused:
                continue
            if position not in bodies:
                torn = found.torn and position >= found.next
                assert position in lost or torn or self.lied, f"acknowledged {position} is lost in silence"
                assert self.damaged or self.lied, f"{position} is lost without any fault"
                self.excused.add(position)
        unacknowledged = [p for p in self.written if p not in self.told and p >= max(self.told, default=0)]
        there = [p in bodies for p in sorted(unacknowledged)]
        assert there == sorted(there, reverse=True), "a record counts although one before it does not"
        self.written = {p: b for p, b in self.written.items() if p < found.next}
        # What was recovered may be told from now on.
        self.told = {p: b for p, b in {**self.told, **bodies}.items() if p < found.next}

    # --- what happens to it --------------------------------------------------------------------------

    def commit(self, sizes: list[int], seal: bool, crash_before_sync: bool = False) -> None:
        group = []
        for size in sizes:
            body = self.random.randbytes(size)
            items = self.random.randint(1, 3)
            group.append(Append(KIND, self.next, items, body))
            self.written[self.next] = body
            for skipped in range(self.next + 1, self.next + items):
                self.written.pop(skipped, None)
            self.next += items
        if crash_before_sync:
            self.writer._write(group)
            return
        if seal and self.next > self.writer.segment.first:
            group.append(Append(SEAL, self.next, 0))
        try:
            done = self.writer.commit(group)
        except DiskFailed:
            self.restart(power=self.random.random() < 0.5)
            return
        refused = {p for first, last in done.refused for p in range(first, last + 1)}
        for append in group:
            if append.kind == KIND and append.position not in refused:
                self.told[append.position] = bytes(append.body)
            elif append.kind == KIND:
                self.written.pop(append.position, None)

    def drop(self) -> None:
        there = segments(self.disk.names())
        if len(there) > 1:
            self.needed = there[1].first
            self.writer.commit([Append(DROP, self.needed, 0)])

    def rot(self) -> None:
        names = [name for name in self.disk.names() if self.disk.size(name) and not name.endswith(".new")]
        if names:
            name = self.random.choice(names)
            self.damaged = True
            self.disk.rot(name, self.random.randrange(self.disk.size(name)), self.random.randrange(8))

    def restart(self, power: bool) -> None:
        self.lied |= bool(self.disk.faults.get("lost sync"))
        self.disk.fail_syncs = 0  # a failing disk has been replaced, or the next start fails as well
        self.disk.crash(power)
        self.start()


def recovery_header(entry, segment):  # type: ignore[no-untyped-def]
    from overlay.journal.index import header_of

    return header_of(entry, segment.number)


def play(seed: int, steps: list[str]) -> Life:
    life = Life(seed)
    random = life.random
    for step in steps:
        sizes = [random.choice((0, 8, 30, 300, 600, 1500)) for _ in range(random.randint(1, 5))]
        if step == "commit":
            life.commit(sizes, seal=False)
        elif step == "seal":
            life.commit(sizes, seal=True)
        elif step == "note":
            life.writer.note()
        elif step == "drop":
            life.drop()
        elif step == "tear":
            life.commit(sizes, seal=False, crash_before_sync=True)
            life.restart(power=True)
        elif step == "kill":
            life.commit(sizes, seal=False, crash_before_sync=True)
            life.restart(power=False)
        elif step == "power":
            life.restart(power=True)
        elif step == "rot":
            life.rot()
        elif step == "misdirect":
            life.disk.misdirects, life.damaged = 1, True
        elif step == "lose":
            life.disk.lose_syncs = 1
        elif step == "fail":
            life.disk.fail_syncs = 1
        elif step == "full":
            life.disk.capacity = life.disk.used() + random.randint(0, 900)
        elif step == "room":
            life.disk.capacity = 1 << 40
    life.disk.capacity = 1 << 40
    life.restart(power=True)
    return life


PLAIN = ("commit", "commit", "commit", "seal", "note", "drop", "tear", "kill", "power")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(PLAIN), max_size=25))
def test_crashes_alone_lose_nothing(seed: int, steps: list[str]) -> None:
    life = play(seed, steps)
    assert not life.excused


@settings(max_examples=600, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from((*PLAIN, "rot", "misdirect", "fail", "full", "room")), max_size=30),
)
def test_nothing_acknowledged_is_lost_in_silence(seed: int, steps: list[str]) -> None:
    try:
        play(seed, steps)
    except DiskFull:
        assert "full" in steps  # a tail that cannot be written anew: the broker does not start


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from((*PLAIN, "lose", "rot")), max_size=25))
def test_a_lying_disk_never_makes_something_up(seed: int, steps: list[str]) -> None:
    play(seed, steps)


# --- that the tests can see --------------------------------------------------------------------------


def seeds_that_fail(steps: list[str], seeds: range = range(200)) -> int:
    failed = 0
    for seed in seeds:
        try:
            life = play(seed, steps)
            failed += bool(life.excused) and not life.damaged
        except AssertionError:
            failed += 1
    return failed


def test_the_oracle_sees_a_log_cut_at_the_first_bad_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(scanned, segment, synced):  # type: ignore[no-untyped-def]
        verdict = judge_tail(scanned, segment, 0)
        return verdict._replace(torn=0)

    steps = ["commit", "commit", "rot", "commit", "power", "commit", "power"]
    assert not seeds_that_fail(steps)
    monkeypatch.setattr(recovery, "judge_tail", cut)
    assert seeds_that_fail(steps)


def test_the_oracle_sees_a_tail_that_is_not_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process had written is taken up unsynced; told on, and gone after a power cut."""
    steps = ["commit", "kill", "power"]

    def trusting(files, incarnation, tail, data, verdict, turn):  # type: ignore[no-untyped-def]
        writer = Writer(files, incarnation, tail, verdict.next - 1, turn)
        writer._name, writer.size = tail.name, len(data)
        entries = list(recovery._entries(data, verdict.records))
        writer.entries = entries
        return writer, entries

    assert not seeds_that_fail(steps)
    monkeypatch.setattr(recovery, "_write_anew", trusting)
    assert seeds_that_fail(steps)


def test_the_oracle_sees_an_acknowledgement_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "_sync", lambda self: None)
    assert seeds_that_fail(["commit", "power"])


def test_the_oracle_sees_a_failed_sync_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ["commit", "fail", "commit", "power"]
    assert not seeds_that_fail(steps)

    def stubborn(self: Writer) -> None:
        try:
            self.files.sync(self._name)
        except DiskFailed:
            self.files.sync(self._name)

    monkeypatch.setattr(Writer, "_sync", stubborn)
    assert seeds_that_fail(steps)


def test_damage_in_the_last_group_is_torn_and_said() -> None:
    life = Life(1)
    life.commit([100], seal=False)
    name = life.writer.segment.name
    life.disk.rot(name, life.disk.size(name) - 40)
    found = recover(life.disk, 5)
    assert found.torn and not found.holes and found.next == 1


def test_the_mark_bears_witness_for_the_last_group() -> None:
    life = Life(1)
    life.commit([100], seal=False)
    life.writer.note()
    name = life.writer.segment.name
    life.disk.rot(name, life.disk.size(name) - 40)
    found = recover(life.disk, 5)
    assert [(hole.first, hole.last) for hole in found.holes] == [(1, life.next - 1)]
    assert found.next == life.next


def test_a_hole_is_remembered_after_the_tail_was_written_anew() -> None:
    life = Life(1)
    life.commit([100], seal=False)
    life.commit([100], seal=False)
    life.disk.rot(life.writer.segment.name, 80)
    recover(life.disk, 5)
    again = recover(life.disk, 6)
    assert not again.holes  # not found anew
    assert [entry.kind for entry in again.entries[-1][1]][:1] == [HOLE]


def test_an_unknown_kind_is_not_passed_over() -> None:
    life = Life(1)
    life.writer.commit([Append(77, 1, 1, b"from the future")])
    with pytest.raises(Unreadable, match="kind 77"):
        recover(life.disk, 5)


def test_scan_of_nothing() -> None:
    scanned = scan(b"", 1, 1)
    assert not scanned.records and not scanned.damages and scanned.next == 1
