"""Mutated and random frames through decode, a broker and a client: WireError and nothing else."""

from __future__ import annotations

from grapevine.wire import decode, encode
from grapevine.wire.messages import KINDS
from tests.fuzz.frames import everybody, mutated, run, samples


def test_samples_cover_every_kind() -> None:
    assert {type(message) for message in samples()} == set(KINDS.values())
    assert all(decode(encode(message)) == message for message in samples())


def test_frames_that_nobody_should_send() -> None:
    taken = run(mutated(seed=1, frames=60_000), everybody(seed=1))
    assert not {cls.__name__ for cls in KINDS.values()} - taken.keys()
    assert taken["refused"] > 5_000
