"""A client's place in a stream, over links that come and go."""

from __future__ import annotations

from grapevine.client.session.durable import DurableReaders, Wanted
from grapevine.client.session.message import Names
from grapevine.filters import parse


def test_a_place_that_was_given_up_is_not_opened_again() -> None:
    """It would be a new stream that nobody reads or ends (onehop-faults 128)."""
    readers = DurableReaders(Names())
    reader = readers.open(Wanted("billing", parse("n > 0")))

    def asked() -> int:
        return len([*readers.attached("b1"), *readers.outgoing(0.0)])

    assert asked() == 1 and asked() == 1, "on each link"
    assert reader.end().end
    assert asked() == 0
