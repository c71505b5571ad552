"""Random messages for hypothesis: `messages()` of any kind, `messages_of(cls)` of one."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from grapevine.filters.normal import Filter
from grapevine.wire import fields, limits
from grapevine.wire import messages as wire
from grapevine.wire.extensions import encode_extension
from grapevine.wire.messages import EXTENDED, MESSAGES, Cut, Deliver, Publication
from tests import strategies

IDS = st.integers(0, 2**64 - 1) | st.integers(0, 3)
COUNTS = st.integers(0, 2**63 - 1) | st.integers(0, 3)
SECONDS = st.floats(0, limits.SECONDS)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
BLOBS = st.binary(max_size=40)


def tuples(entries: st.SearchStrategy[Any], min_size: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(entries, min_size=min_size, max_size=3).map(tuple)


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    values = [draw(of_type(field.type)) for field in msgspec.structs.fields(Publication)]
    publication = Publication(*values)
    records = draw(st.lists(st.tuples(st.integers(0, 127), BLOBS), max_size=2))
    publication.extension = encode_extension(records)
    publication.flags = publication.flags | EXTENDED if records else publication.flags & ~EXTENDED
    return publication


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    first = draw(COUNTS)
    return Cut(draw(IDS), draw(IDS), first, draw(st.integers(first, 2**63 - 1)), draw(COUNTS))


BY_TYPE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (fields.Id, IDS),
    (fields.Count, COUNTS),
    (fields.Number, st.integers(0, 2**32 - 1)),
    (fields.Hops, st.integers(0, limits.HOPS)),
    (fields.Flags, st.integers(0, 0xFFFF)),
    (fields.Policy, st.integers(0, 2)),
    (fields.Seconds, SECONDS),
    (fields.Name, NAMES),
    (fields.Text, NAMES),
    (fields.Body, BLOBS),
    (fields.AttributeBytes, BLOBS),
    (fields.PayloadBytes, BLOBS),
    (fields.ExtensionBytes, BLOBS),
    (fields.Ids, tuples(IDS)),
    (fields.Path, tuples(IDS, min_size=1)),
    (fields.RootPath, tuples(IDS)),
    (fields.Addresses, tuples(NAMES)),
    (fields.NameList, tuples(NAMES)),
    (fields.Settings, st.dictionaries(NAMES, NAMES, max_size=3)),
    (
        fields.Arguments,
        st.dictionaries(NAMES, st.one_of(NAMES, st.integers(-5, 5), st.booleans(), st.none())),
    ),
    (fields.Reports, tuples(BLOBS)),
    (fields.NumberLists, st.lists(st.integers(0, 3).map(lambda n: bytes(4 * n)), max_size=3)),
    (wire.Publications, st.lists(publications(), max_size=3)),
    (wire.Cuts, tuples(cuts())),
    (wire.Resume | None, st.none() | st.deferred(lambda: structs(wire.Resume))),
    (wire.Advertisement, st.deferred(lambda: structs(wire.Advertisement))),
    (wire.Subscription, st.deferred(lambda: structs(wire.Subscription))),
    (Filter, strategies.checked_filters()),
    (bool, st.booleans()),
]


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    return next(strategy for known, strategy in BY_TYPE if known == kind)


def structs(cls: type[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*(of_type(field.type) for field in msgspec.structs.fields(cls))).map(lambda v: cls(*v))


def messages_of(cls: type[wire.Message]) -> st.SearchStrategy[wire.Message]:
    return structs(cls).map(_one_list_each) if cls is Deliver else structs(cls)


def _one_list_each(deliver: Deliver) -> Deliver:
    lists = [*deliver.subscriptions, b"", b"", b""][: len(deliver.publications)]
    return msgspec.structs.replace(deliver, subscriptions=lists)


def messages() -> st.SearchStrategy[wire.Message]:
    return st.sampled_from(MESSAGES).flatmap(messages_of)
