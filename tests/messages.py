"""Random messages for hypothesis, made from the classes themselves so that a new kind is covered at once.

`messages()` of any kind, `messages_of(cls)` of one; `sample(cls)` is one plain message without any chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire import messages as wire
from grapevine.wire.extensions import encode_extension
from grapevine.wire.messages import (
    EXTENDED,
    MESSAGES,
    Cut,
    Deliver,
    ExcludingBatch,
    HomeBatch,
    LaneBatch,
    Publication,
)
from grapevine.wire.onehop import HomeMatches
from tests import strategies

Strategy = st.SearchStrategy[Any]
FEW = 3


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    publication: Publication = draw(plain_structs(Publication))
    records = draw(st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=20)), max_size=2))
    publication.extension = encode_extension(records)
    publication.flags = publication.flags | EXTENDED if records else publication.flags & ~EXTENDED
    return publication


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    cut: Cut = draw(plain_structs(Cut))
    return msgspec.structs.replace(cut, first=min(cut.first, cut.last), last=max(cut.first, cut.last))


def one_list_each(deliver: Deliver) -> Deliver:
    lists = [part[: len(part) // 4 * 4] for part in (*deliver.subscriptions, *[b""] * FEW)]
    return msgspec.structs.replace(deliver, subscriptions=lists[: len(deliver.publications)])


def lists_in_order(batch: ExcludingBatch | LaneBatch) -> ExcludingBatch | LaneBatch:
    """Of the first publications, each list for one or two of them, perhaps with one between."""
    exclusions, place = [], 0
    for each in batch.exclusions:
        start = place + each.start % 2
        place = start + 1 + each.end % 2
        if place <= len(batch.publications):
            exclusions.append(msgspec.structs.replace(each, start=start, end=place))
    return msgspec.structs.replace(batch, exclusions=exclusions)


def clients_of_each(batch: HomeBatch) -> HomeBatch:
    lists = [*batch.clients, *[b""] * FEW]
    return msgspec.structs.replace(batch, clients=lists[: len(batch.publications)])


def clients_of_positions(home: HomeMatches) -> HomeMatches:
    lists = [*home.clients, *[b""] * FEW]
    return msgspec.structs.replace(home, clients=lists[: len(home.positions)])


# What a class alone does not say.
SPECIAL: dict[type[Any], Callable[[], Strategy]] = {
    Filter: strategies.checked_filters,
    Publication: publications,
    Cut: cuts,
    Deliver: lambda: plain_structs(Deliver).map(one_list_each),
    ExcludingBatch: lambda: plain_structs(ExcludingBatch).map(lists_in_order),
    LaneBatch: lambda: plain_structs(LaneBatch).map(lists_in_order),
    HomeBatch: lambda: plain_structs(HomeBatch).map(clients_of_each),
    HomeMatches: lambda: plain_structs(HomeMatches).map(clients_of_positions),
}


def structs(cls: type[Any]) -> Strategy:
    return SPECIAL[cls]() if cls in SPECIAL else plain_structs(cls)


def plain_structs(cls: type[Any]) -> Strategy:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return st.tuples(*(of_type(field.type) for field in info.fields)).map(lambda values: cls(*values))


def of_type(info: inspect.Type) -> Strategy:
    match info:
        case inspect.IntType(ge=ge, le=le):
            low, high = -5 if ge is None else ge, 2**64 - 1 if le is None else le
            return st.integers(low, high) | st.integers(low, min(low + 3, high))
        case inspect.FloatType(ge=ge, le=le):
            return st.floats(ge, le, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return st.text(st.characters(codec="utf-8"), max_size=20)
        case inspect.BytesType():
            return st.binary(max_size=40)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.ListType(item_type=item, min_length=least):
            return st.lists(of_type(item), min_size=least or 0, max_size=FEW)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(of_type(item), min_size=least or 0, max_size=max(FEW, least or 0)).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(of_type, items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(of_type(key), of_type(value), max_size=FEW)
        case inspect.UnionType(types=types):
            return st.one_of(*map(of_type, types))
        case inspect.StructType(cls=cls):
            return structs(cls)
    raise AssertionError(f"no strategy for {info}")


def messages_of(cls: type[wire.Message]) -> st.SearchStrategy[wire.Message]:
    return structs(cls)


def messages() -> st.SearchStrategy[wire.Message]:
    return st.sampled_from(MESSAGES).flatmap(messages_of)


# --- without chance ---------------------------------------------------------------------------------


def sample(cls: type[Any]) -> Any:
    """One of this class in which every list has an entry."""
    if cls is Filter:
        return EVERYTHING
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return cls(*(_sample_of(field.type) for field in info.fields))


def _sample_of(info: inspect.Type) -> Any:
    match info:
        case inspect.IntType(ge=ge):
            return max(ge or 0, 1)
        case inspect.FloatType():
            return 1.5
        case inspect.StrType():
            return "b1"
        case inspect.BytesType():
            return b""
        case inspect.BoolType():
            return True
        case inspect.NoneType():
            return None
        case inspect.ListType(item_type=item):
            return [_sample_of(item)]
        case inspect.VarTupleType(item_type=item, min_length=least):
            return (_sample_of(item),) * (least or 1)
        case inspect.TupleType(item_types=items):
            return tuple(map(_sample_of, items))
        case inspect.DictType(key_type=key, value_type=value):
            return {_sample_of(key): _sample_of(value)}
        case inspect.UnionType(types=types):
            return _sample_of(types[0])
        case inspect.StructType(cls=cls):
            return sample(cls)
    raise AssertionError(f"no sample for {info}")
