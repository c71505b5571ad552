"""Every kind there and back, every limit, and one typed error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grapevine.filters import EVERYTHING, Filter, Op, Predicate
from grapevine.filters.limits import ATTRIBUTE_CHARS, ATTRIBUTES, NAME_CHARS
from grapevine.wire import (
    WireError,
    decode,
    decode_attributes,
    encode,
    encode_attributes,
    encode_publications,
    encode_publish,
    limits,
)
from grapevine.wire import messages as wire
from grapevine.wire.codec import write_batch, write_deliver
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import KINDS, MESSAGES, RESERVED, Publication
from tests import strategies
from tests.messages import messages_of, publications

pack = msgspec.msgpack.encode


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_kind_there_and_back(cls: type[wire.Message]) -> None:
    @settings(max_examples=30)
    @given(messages_of(cls))
    def there_and_back(message: wire.Message) -> None:
        frame = encode(message)
        assert frame[0] == cls.kind and decode(frame) == message

    there_and_back()


def test_kinds_are_distinct_and_none_is_promised_twice() -> None:
    assert len(KINDS) == len(MESSAGES) and not KINDS.keys() & RESERVED.keys()
    assert all(0 < kind < 256 for kind in KINDS)


@given(st.lists(publications(), max_size=3))
def test_publications_encoded_once_fit_into_every_frame(many: list[Publication]) -> None:
    raw = encode_publications(many)
    lists = [b"\1\0\0\0"] * len(many)
    buffer = bytearray(b"what was in it before" * 100)
    for encoded in (raw, many):
        write_batch(buffer, 1, 2, 3, 4, 5, encoded)
        assert decode(buffer) == wire.Batch(1, 2, 3, 4, 5, many)
        write_deliver(buffer, 1, 2, 3, 4, 5, encoded, lists)
        assert decode(buffer) == wire.Deliver(1, 2, 3, 4, 5, many, lists)
    assert decode(encode_publish(1, 2, raw)) == wire.Publish(1, 2, many)


ONE, TWO = b"\1\0\0\0", b"\2\0\0\0"


@pytest.mark.parametrize(("lists", "written"), [([ONE] * 3, [ONE]), ([ONE, TWO, ONE], [ONE, TWO, ONE])])
def test_a_list_that_all_publications_share_is_written_once(lists: list[bytes], written: list[bytes]) -> None:
    many, buffer = [publication()] * 3, bytearray()
    write_deliver(buffer, 1, 2, 3, 4, 5, many, lists)
    assert bytes(buffer).endswith(bytes(encode_publications(many)) + pack(written))
    assert decode(buffer) == wire.Deliver(1, 2, 3, 4, 5, many, lists)
    write_deliver(buffer, 1, 2, 3, 4, 5, many, lists, protocol=1)
    assert bytes(buffer).endswith(pack(lists)), "who came before reads one list each"


def test_a_client_may_send_four_fields_of_a_publication() -> None:
    frame = bytes((wire.Publish.kind,)) + pack([1, 1, [[b"\x80", b"x", 7, 0]]])
    assert decode(frame) == wire.Publish(1, 1, [Publication(b"\x80", b"x", 7)])


def test_fields_appended_by_a_newer_peer_are_skipped() -> None:
    assert decode(bytes((wire.Confirmed.kind,)) + pack([7, {"new": [1]}])) == wire.Confirmed(7)


# --- frames that are no messages ------------------------------------------------------------------


def publication(**changes: Any) -> Publication:
    return msgspec.structs.replace(Publication(b"\x80", b"", 1), **changes)


def publish(**changes: Any) -> wire.Publish:
    return wire.Publish(1, 1, [publication(**changes)])


def subscribe(*conjunctions: tuple[Predicate, ...]) -> wire.ClientSubscribe:
    return wire.ClientSubscribe(1, 1, Filter(conjunctions))


def excluding(*places: tuple[int, int]) -> wire.ExcludingBatch:
    lists = [Exclusion(start, end, (7,)) for start, end in places]
    return wire.ExcludingBatch(1, 1, 1, 1, 1, [publication()] * 3, lists)


HELLO = wire.Hello(2, 2, "b1", 7, 1, 1, False, 9, {}, (7,))
ATTACH = wire.Attach(1, 1, "c1", 7, 1, 1, 9, 0)
LONG = "é" * 128  # 128 characters, 256 bytes


def changed(message: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(message, **changes)


REFUSED: dict[str, Any] = {
    "too many publications": wire.Publish(1, 1, [publication()] * (limits.BATCH_PUBLICATIONS + 1)),
    "attributes too large": publish(attributes=bytes(limits.ATTRIBUTE_BYTES + 1)),
    "payload too large": publish(payload=bytes(limits.PAYLOAD_BYTES + 1)),
    "extension too large": publish(extension=bytes(limits.EXTENSION_BYTES + 1), flags=wire.EXTENDED),
    "extension without its flag": publish(extension=b"\1\0\0"),
    "extension cut off": publish(extension=b"\1\0\5abc", flags=wire.EXTENDED),
    "critical extension": publish(extension=b"\xff\0\0", flags=wire.EXTENDED),
    "critical extension in a batch": wire.Batch(
        1, 1, 1, 1, 1, [publication(extension=b"\xff\0\0", flags=wire.EXTENDED)]
    ),
    "critical extension in a delivery": wire.Deliver(
        1, 1, 1, 1, 1, [publication(extension=b"\xff\0\0", flags=wire.EXTENDED)], [b""]
    ),
    "an exclude list of nothing": excluding((0, 0)),
    "exclude lists over each other": excluding((0, 2), (1, 3)),
    "exclude lists backwards": excluding((2, 3), (0, 1)),
    "an exclude list beyond the batch": excluding((1, 4)),
    "an exclude list of too many": wire.ExcludingBatch(
        1, 1, 1, 1, 1, [publication()], [Exclusion(0, 1, (7,) * (limits.NEARBY_BROKERS + 1))]
    ),
    "too many hops": publish(hops=limits.HOPS + 1),
    "negative sequence": publish(sequence=-1),
    "sequence of 64 bits": publish(sequence=2**63),
    "negative publisher": publish(publisher=-1),
    "NaN time": publish(accepted_at=float("nan")),
    "infinite time": publish(accepted_at=float("inf")),
    "negative time": publish(accepted_at=-1.0),
    "NaN ping": wire.Ping(float("nan")),
    "negative mark": wire.Marks(1, -1, 0, 0),
    "mark of 64 bits": wire.Marks(1, 0, 0, 2**63),
    "too many cuts": wire.Marks(1, 0, 0, 0, 0, (wire.Cut(1, 1, 1, 1, 1),) * (limits.CUTS + 1)),
    "cut backwards": wire.Marks(1, 0, 0, 0, 0, (wire.Cut(1, 1, 2, 1, 1),)),
    "resume's cut backwards": changed(HELLO, resume=wire.Resume(1, 1, 1, (wire.Cut(1, 1, 2, 1, 1),))),
    "attach's cut backwards": changed(ATTACH, resume=wire.Resume(1, 1, 1, (wire.Cut(1, 1, 2, 1, 1),))),
    "name too long": changed(HELLO, name="b" * (limits.NAME_BYTES + 1)),
    "name too long in bytes": changed(HELLO, name=LONG),
    "setting too long in bytes": changed(HELLO, settings={"a": LONG}),
    "address too long in bytes": changed(HELLO, addresses=(LONG,)),
    "client's name too long in bytes": changed(ATTACH, name=LONG),
    "too many settings": changed(HELLO, settings={str(n): "" for n in range(limits.SETTINGS + 1)}),
    "too many addresses": changed(HELLO, addresses=("a",) * (limits.ADDRESSES + 1)),
    "root path too long": changed(HELLO, root_path=(7,) * (limits.ROOT_PATH_BROKERS + 1)),
    "unknown policy": changed(ATTACH, on_slow=3),
    "successor's name": wire.Leaving(1, LONG, (), ()),
    "too many heirs": wire.Leaving(1, "b", (), (1,) * (limits.LIST_ENTRIES + 1)),
    "broker's name": wire.Attached(1, LONG, 1, False, 0, 0, 0),
    "publisher's name": wire.Names(1, "a", LONG),
    "go away too far": wire.GoAway((LONG,)),
    "text too long": wire.Refuse("name", "x" * (limits.TEXT_BYTES + 1)),
    "text too long in bytes": wire.Refuse("name", "é" * limits.TEXT_BYTES),
    "outcome too long in bytes": wire.Done(1, LONG),
    "answer too long in bytes": wire.Answer(1, "ok", b"", "é" * limits.TEXT_BYTES),
    "question too long in bytes": wire.CensusRequest(1, 1, 1, LONG),
    "verb too long in bytes": wire.Command(1, LONG, {}),
    "argument too long in bytes": wire.Command(1, "a", {"a": "é" * limits.TEXT_BYTES}),
    "NaN argument": wire.Command(1, "a", {"a": float("nan")}),
    "infinite argument": wire.Command(1, "a", {"a": float("inf")}),
    "NaN deadline": wire.CensusRequest(1, 1, 1, "", b"", float("nan")),
    "empty path": wire.Subscribe(1, wire.Subscription(1, 1, 1, (), EVERYTHING)),
    "path too long": wire.Subscribe(
        1, wire.Subscription(1, 1, 1, (1,) * (limits.PATH_BROKERS + 1), EVERYTHING)
    ),
    "unknown operator": subscribe((Predicate("a", 99, 1),)),
    "unsorted filter": subscribe((Predicate("b", Op.EQ, 1), Predicate("a", Op.EQ, 1))),
    "filter of a broker": wire.Subscribe(
        1, wire.Subscription(1, 1, 1, (1,), Filter(((Predicate("a", Op.EQ, None),),)))
    ),
    "filter of an advertisement": wire.Advertise(
        1, wire.Advertisement(1, 1, 1, "b", 1, 1, "p", Filter(((Predicate("", Op.EXISTS),),)))
    ),
    "filter of a client's advertisement": wire.ClientAdvertise(1, 1, Filter(((Predicate("a", 0),),))),
    "home's name": wire.Advertise(1, wire.Advertisement(1, 1, 1, LONG, 1, 1, "p", EVERYTHING)),
    "subscription's number": wire.ClientSubscribe(1, 2**32, EVERYTHING),
    "lists and publications differ": wire.Deliver(1, 1, 1, 1, 1, [publication()], []),
    "fewer lists than publications": wire.Deliver(1, 1, 1, 1, 1, [publication()] * 3, [b"", b""]),
    "a list and no publication": wire.Deliver(1, 1, 1, 1, 1, [], [b""]),
    "list cut off": wire.Deliver(1, 1, 1, 1, 1, [publication()], [b"abc"]),
}


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED.keys())
def test_what_breaks_a_limit_is_refused(message: wire.Message) -> None:
    with pytest.raises(WireError):
        decode(encode(message))


def test_what_reaches_the_limits_is_taken() -> None:
    full = publication(
        attributes=bytes(limits.ATTRIBUTE_BYTES),
        payload=bytes(limits.PAYLOAD_BYTES),
        hops=limits.HOPS,
        sequence=2**63 - 1,
        publisher=2**64 - 1,
        extension=b"\x7f\x0f\xfd" + bytes(limits.EXTENSION_BYTES - 3),
        flags=wire.EXTENDED,
    )
    for message in (
        wire.Publish(2**64 - 1, 1, [full]),
        wire.Publish(1, 1, [publication()] * limits.BATCH_PUBLICATIONS),
        changed(HELLO, name="b" * limits.NAME_BYTES, addresses=("a",) * limits.ADDRESSES),
        wire.Refuse("name", "x" * limits.TEXT_BYTES),
    ):
        assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x05",
        b"\xfe\x90",
        bytes((53,)) + pack([]),
        bytes((wire.Reset.kind,)) + b"\xc1",
        bytes((wire.Reset.kind,)) + b"\x90\x90",
        bytes((wire.Reset.kind,)) + b"\x91" * 100_000,
        bytes((wire.Confirmed.kind,)) + b"\x91\xcf" + b"\xff" * 8,
        bytes((wire.Confirmed.kind,)) + b"\xdd\xff\xff\xff\xff\x01",
        bytes((wire.Publish.kind,)) + b"\x93\x01\x01\xdd\xff\xff\xff\xff",
        bytes((wire.Names.kind,)) + b"\x93\x01\xa2\xff\xfe\xa0",
        bytes((wire.Names.kind,)) + b"\x93\x01\xa3\xed\xa0\x80\xa0",
        bytes((wire.Ping.kind,)) + b"\x91\xc0",
        bytes((wire.Reset.kind,)) + bytes(limits.FRAME_BYTES),
    ],
    ids=range(15),
)
def test_bytes_that_are_no_message_are_a_wire_error(frame: bytes) -> None:
    with pytest.raises(WireError):
        decode(frame)


# --- attributes ------------------------------------------------------------------------------------


@given(strategies.attributes())
def test_attributes_there_and_back_in_their_order(attributes: dict[str, Any]) -> None:
    decoded = decode_attributes(encode_attributes(attributes))
    assert list(decoded.items()) == list(attributes.items())
    assert [type(v) for v in decoded.values()] == [type(v) for v in attributes.values()]


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x90",
        pack({"a": None}),
        pack({"a": [1]}),
        pack({"a": {}}),
        pack({"a": b"x"}),
        pack({1: 1}),
        pack({"": 1}),
        pack({"a": float("nan")}),
        b"\x81\xa1a\xca\x7f\xc0\x00\x00",
        pack({"a": 2**63}),
        pack({"n" * (NAME_CHARS + 1): 1}),
        pack({"a": "x" * (ATTRIBUTE_CHARS + 1)}),
        pack({str(n): 1 for n in range(ATTRIBUTES + 1)}),
        pack({str(n): "x" * 1000 for n in range(20)}),
        pack({"a": 1}) + b"\x00",
    ],
    ids=range(16),
)
def test_attributes_that_are_none_are_a_wire_error(encoded: bytes) -> None:
    with pytest.raises(WireError):
        decode_attributes(encoded)
