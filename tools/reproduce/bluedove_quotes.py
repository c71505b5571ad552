"""Boundary moves on quotes: who gets which share of the publications before and after.

Segments of equal width put nearly all quotes into one of them. Moves go between neighbours as in
`overlay.onehop.splitting`: a segment with more than twice the mean share gives to the neighbour that has
less.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from pathlib import Path
from random import Random
from typing import NamedTuple

from grapevine.wire.onehop import Span
from overlay.onehop.boundaries import GAIN, part_to_give, wanted_moves
from tools.reproduce.quotes import symbols

ATTRIBUTES = ("close", "volume", "highLow%Diff")
SYMBOLS = 50
MOVES_MAX = 400


class Shares(NamedTuple):
    attribute: str
    before: float  # of the fullest segment
    after: float
    moves: int
    tie: float  # share of the commonest value: no cut can go below it


def quote_shares(data: Path | None, segments: int) -> list[Shares]:
    quotes = [quote for symbol in symbols(data, Random(1), SYMBOLS) for quote in symbol.quotes]
    return [_moved(name, sorted(float(quote[name]) for quote in quotes), segments) for name in ATTRIBUTES]


def _moved(name: str, values: list[float], segments: int) -> Shares:
    low, high = values[0], values[-1]
    edges = [low + (high - low) * place / segments for place in range(1, segments)]
    before = max(_counts(values, edges)) / len(values)
    moves = 0
    while moves < MOVES_MAX and _move(values, edges):
        moves += 1
    commonest = max(bisect_right(values, value) - place for place, value in enumerate(values))
    return Shares(name, before, max(_counts(values, edges)) / len(values), moves, commonest / len(values))


def _counts(values: list[float], edges: list[float]) -> list[int]:
    # An edge belongs to the segment above it.
    ends = [0, *(bisect_left(values, edge) for edge in edges), len(values)]
    return [end - start for start, end in itertools.pairwise(ends)]


def _move(values: list[float], edges: list[float]) -> bool:
    """One move, of the fullest segment that can; whether there was one."""
    counts = _counts(values, edges)
    starts = [sum(counts[:place]) for place in range(len(counts))]
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        mine = [(value, 1.0) for value in values[starts[place] : starts[place] + counts[place]]]
        for move in wanted_moves(range(len(counts)), counts, place):
            gain = GAIN * len(values) / len(counts)
            part = part_to_give(Span(), mine, move.publications, move.upper, gain)
            boundary = None if part is None else part.low if move.upper else part.high
            if isinstance(boundary, float):
                edges[place if move.upper else place - 1] = boundary
                return True
    return False
