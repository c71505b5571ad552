"""A traceparent goes with its publication, unchanged, and nothing else that a client puts beside it does."""

from __future__ import annotations

import pytest

import grapevine
from grapevine.client.session import Session
from grapevine.client.session.context import context_of, publish_in
from grapevine.filters import EVERYTHING, parse
from grapevine.wire import decode, encode, encode_attributes, identify
from grapevine.wire.extensions import TRACEPARENT, encode_extension
from grapevine.wire.messages import (
    DROP_OLDEST,
    EXTENDED,
    RESENT,
    Attach,
    Attached,
    ClientAdvertise,
    ClientSubscribe,
    Deliver,
    Done,
    ExtendedPublish,
    Publication,
    Publish,
)
from grapevine.wire.relocation import TRACE
from overlay.links.session import Kind
from tests.one_broker import Broker

CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def attached(protocol: int) -> Session:
    session = Session("p", 7)
    session.link_up(0.0)
    session.out.clear()
    session.receive(Attached(7, "b1", 1, False, 0, 0, 100, protocol=protocol), 0.0)
    return session


def left(session: Session) -> list[Publish]:
    session.flush_out()
    for asked in [m for m in session.out if isinstance(m, ClientAdvertise)]:
        session.receive(Done(asked.request, "confirmed"), 0.0)
    session.flush_out()
    out = [message for message in session.out if isinstance(message, Publish)]
    session.out.clear()
    return out


def test_only_a_batch_with_a_context_is_another_frame() -> None:
    session = attached(3)
    session.publish({"n": 1})
    assert [type(message) for message in left(session)] == [Publish]
    publish_in(session, CONTEXT, {"n": 2}, b"payload")
    session.publish({"n": 3})
    (message,) = left(session)
    read = decode(encode(message))
    assert isinstance(read, ExtendedPublish)
    assert [context_of(p) for p in read.publications] == [CONTEXT, None]
    session.publish({"n": 4})
    assert [type(message) for message in left(session)] == [Publish]


def test_sent_again_it_still_has_it() -> None:
    session = attached(3)
    publish_in(session, CONTEXT, {"n": 1})
    left(session)
    session.outgoing.restart(100)
    session.publish({"n": 2})
    (message,) = left(session)
    assert [context_of(p) for p in decode(encode(message)).publications] == [CONTEXT, None]  # type: ignore[union-attr]
    assert message.publications[0].flags == EXTENDED | RESENT


def test_a_broker_of_the_last_version_gets_it_without() -> None:
    session = attached(2)
    publish_in(session, CONTEXT, {"n": 1})
    (message,) = left(session)
    assert type(message) is Publish
    assert not message.publications[0].flags


@pytest.mark.parametrize(
    "wrong", ["", "00-0-0-0", CONTEXT.upper(), CONTEXT[:-1], CONTEXT + "\n", 7, f"ff{CONTEXT[2:]}"]
)
def test_what_is_no_traceparent(wrong: str) -> None:
    session = attached(3)
    with pytest.raises(grapevine.Invalid, match="traceparent"):
        publish_in(session, wrong, {"n": 1})
    assert session.outgoing.unsettled == 0


def test_the_first_broker_keeps_a_traceparent_and_nothing_else() -> None:
    """A client must not mark its publications as traced by a broker."""
    broker = Broker()
    attach = [Attach(1, 3, name, identify(name), 7, 1, 100, DROP_OLDEST) for name in ("r", "p")]
    broker.link(1, Kind.CLIENT, attach[0], ClientSubscribe(1, 1, parse("n >= 0")))
    broker.link(2, Kind.CLIENT, attach[1], ClientAdvertise(1, 1, EVERYTHING))
    context, forged = (TRACEPARENT, CONTEXT.encode()), (TRACE, bytes(20))
    run = [
        Publication(encode_attributes({"n": n}), b"", n, EXTENDED, extension=encode_extension(records))
        for n, records in enumerate(([context], [forged], [forged, context], []), 1)
    ]
    broker.say(2, ExtendedPublish(1, 1, run))
    got = [p for batch in broker.batches if isinstance(batch, Deliver) for p in batch.publications]
    assert [context_of(p) for p in got] == [CONTEXT, None, CONTEXT, None]
    assert [bool(p.flags & EXTENDED) for p in got] == [True, False, True, False]
    assert all(p.extension in (b"", encode_extension([context])) for p in got)
