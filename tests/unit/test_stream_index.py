"""Which stream a reader means."""

from __future__ import annotations

import msgspec

from grapevine.filters import parse
from overlay.journal.bodies import StreamBody, encode_body
from overlay.journal.contents import Contents
from overlay.journal.record import STREAM


def body(number: int, filter: str, name: str = "", retention: str = "acked") -> StreamBody:
    return StreamBody(number, name or f"durable-{number}", number, parse(filter), "", retention, 60.0, 1)


def contents(*bodies: StreamBody) -> Contents:
    found = Contents()
    for one in bodies:
        found.take(STREAM, 1, 1, encode_body(one))
    return found


def test_equal_filters_share_one_stream_and_named_ones_with_limits_are_not_shared() -> None:
    index = contents(body(1, "x > 1", "quotes", "limits"), body(2, "x > 1"), body(3, "x > 2")).index
    assert index.wanting(parse("x > 1")) == 2
    assert index.wanting(parse("x > 3")) is None
    assert index.named("quotes") == 1


def test_one_and_true_are_two_filters() -> None:
    """They are equal as Python values: a subscription read the other's stream."""
    index = contents(body(1, "x = 1"), body(2, "x = true")).index
    assert (index.wanting(parse("x = 1")), index.wanting(parse("x = true"))) == (1, 2)


def test_the_first_one_counts_until_it_ends() -> None:
    both = contents(body(1, "x > 1"), body(2, "x > 1"))
    assert both.index.wanting(parse("x > 1")) == 1
    both.take(STREAM, 2, 1, encode_body(msgspec.structs.replace(body(1, "x > 1"), state="gone")))
    assert both.index.wanting(parse("x > 1")) == 2
    assert both.index.named("durable-1") is None


def test_a_checkpoint_that_says_it_again_changes_nothing() -> None:
    both = contents(body(1, "x > 1"), body(1, "x > 1"))
    both.take(STREAM, 2, 1, encode_body(msgspec.structs.replace(body(1, "x > 1"), state="gone")))
    assert both.index.wanting(parse("x > 1")) is None
