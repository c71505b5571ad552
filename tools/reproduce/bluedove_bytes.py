"""What keeping the segment table costs in bytes (IV-C), by the messages' own encoding."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from grapevine.wire.onehop import DimensionLoad, Entry, LoadReport, PublicationSample, Span
from overlay.onehop.gossip import digest, entries_for, merge, owners_wanted, partners
from overlay.onehop.sampling import SAMPLED
from tools.reproduce.row import Row

MATCHERS, DIMENSIONS = 20, 4


def _entry(owner: int) -> Entry:
    step = 1000 / MATCHERS
    span = (Span(owner * step, (owner + 1) * step),)
    wide = 2**63 + owner  # ids are hashes: all eight bytes
    return Entry(wide, 1_790_000_000, 12, (span,) * DIMENSIONS, f"matcher{owner}", ("tcp://10.0.0.1:7470",))


def byte_rows() -> Iterator[Row]:
    entries = {one.owner: one for one in map(_entry, range(MATCHERS))}
    size = {owner: len(msgspec.msgpack.encode(one)) for owner, one in entries.items()}
    words = len(msgspec.msgpack.encode(digest(entries)))
    table = sum(size.values())
    setting = f"N={MATCHERS} k={DIMENSIONS}"
    yield Row("IV-C", setting, "bytes of the segment table", 60 * MATCHERS, table)
    yield Row("IV-C", setting, "bytes of a digest", None, words)
    note = "the paper's state changes every second; ours only when a segment does"
    yield Row("IV-C", f"{setting} at rest", "gossip, bytes/s of a matcher", 2900, 2 * words, note)
    every = 2 * words + 2 * table
    yield Row("IV-C", f"{setting} all changing", "gossip, bytes/s of a matcher", 2900, every)
    loads = (DimensionLoad(1234, 4321.5, 4444.5, 12_345, 0.000321),) * DIMENSIONS
    pushed = len(msgspec.msgpack.encode(LoadReport(loads, 0.0123, 0.77)))
    yield Row("IV-C", setting, "bytes of a load push to a dispatcher", 64, pushed)
    sample = PublicationSample(5_000, [(123.456,) * DIMENSIONS] * SAMPLED)
    note = "ours: what segments are cut by, once a second from every dispatcher"
    sampled = len(msgspec.msgpack.encode(sample))
    yield Row("IV-C", setting, "bytes of a sample of what is published to a matcher", None, sampled, note)


def rounds_to_all(members: int, seed: int) -> int:
    """Rounds until one change is everywhere, every member gossiping with one other a round."""
    chance = Random(seed)
    old = _entry(0)
    owner = old.owner
    tables = [{owner: old} for _ in range(members)]
    tables[chance.randrange(members)][owner] = msgspec.structs.replace(old, version=13)
    rounds = 0
    while any(table[owner].version == 12 for table in tables):
        rounds += 1
        for one in chance.sample(range(members), members):
            (other,) = partners([member for member in range(members) if member != one], 1, chance)
            mine, theirs = tables[one], tables[other]
            wanted, answer = owners_wanted(theirs, digest(mine)), entries_for(theirs, digest(mine))
            merge(theirs, [mine[one_owner] for one_owner in wanted])
            merge(mine, answer)
    return rounds
