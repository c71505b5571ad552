"""Publications to bytes and back, compiled and by msgspec: the same to the byte and to the error."""

from __future__ import annotations

import sys
from random import Random
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon import packing
from grapevine.wire import WireError, codec, decode, encode, encode_publications, encode_publish
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import Batch, Message, Publication, Publish

needs_compiled = pytest.mark.skipif(packing.compiled is None, reason="built without a compiler")
both = pytest.mark.parametrize("compiled", [packing.compiled, None], ids=["compiled", "python"])

ids = st.sampled_from([0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
counts = st.sampled_from([0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1])
sizes = st.sampled_from([0, 1, 7, 8, 9, 200, 255, 256, 257, 300, 65_535, 65_536])
texts = st.builds(lambda size, byte: bytes((byte,)) * size, sizes, st.integers(0, 255))
drafts = st.lists(
    st.builds(Draft, texts.filter(lambda text: len(text) <= 16_384), texts, counts), max_size=20
)
publications = st.lists(
    st.builds(
        Publication,
        texts,
        texts,
        counts,
        st.sampled_from([0, 4, 65_535]),
        ids,
        ids,
        st.floats(0.0, 1e12),
        st.integers(0, 255),
        counts,
        texts,
    ),
    max_size=20,
)


def frame(drafts: list[Draft], epoch: int = 7, first: int = 1) -> bytes:
    return encode_publish(epoch, first, encode_publications(drafts))


def batch(count: int) -> bytes:
    """Of two publishers, one after the other."""
    several = [Publication(b"\x80", b"x" * 20, n, 0, 1 << 60, 5 + n // 2, 2.5, 3, 1) for n in range(count)]
    return encode(Batch(7, 1, 2, 3, 4, several))


def usual(count: int) -> list[Draft]:
    return [Draft(b"\x81\xa5topic\xa4t%03d" % (n % 7), b"x" * 20, n + 1) for n in range(count)]


def outcome(read: Any, frame: bytes) -> Message | str:
    try:
        return cast(Message, read(memoryview(frame)))
    except WireError as error:
        return str(error)


@needs_compiled
@given(publications)
def test_bytes_are_those_of_msgspec(several: list[Publication]) -> None:
    assert bytes(packing.pack(several)) == bytes(encode_publications(several))


@both
def test_a_run_of_one_publisher(compiled: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "compiled", compiled)
    for count in (0, 15, 16, 65_536):
        several = [Publication(b"\x80", b"", n, 0, 1 << 60, 5, 2.5) for n in range(count)]
        for each in several[count // 2 :]:
            each.incarnation = 6
        assert bytes(packing.pack(several)) == bytes(encode_publications(several))


@needs_compiled
def test_what_is_unusual_is_left_to_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[tuple[str, Any]] = [("sequence", -1), ("sequence", 2**64 - 1), ("payload", bytearray(b"ab"))]
    values += [("accepted_at", 3), ("flags", True), ("hops", -5), ("attributes", "text")]
    for field, value in values:
        each = Publication(b"\x80", b"x", 1)
        setattr(each, field, value)
        assert bytes(packing.pack([each])) == bytes(encode_publications([each])), field
    assert bytes(packing.pack(cast(Any, usual(2)))) == bytes(encode_publications(usual(2)))
    too_much = Publication(b"\x80", b"x", 2**64)
    with pytest.raises(OverflowError):
        packing.pack([too_much])


@needs_compiled
@given(drafts, ids, counts)
def test_what_clients_send_is_read_as_msgspec_reads_it(several: list[Draft], epoch: int, first: int) -> None:
    sent = frame(several, epoch, first)
    assert packing.unpack(memoryview(sent)) == decode(sent)
    assert packing.compiled is not None
    read = packing.compiled.unpack(sent, 2, packing._MEMBERS, packing._OTHERS, packing._LIMITS)
    assert (read is None) == any(len(each.payload) > 8 * 1024 * 1024 for each in several)


@needs_compiled
@given(publications, ids, st.tuples(counts, counts, counts, counts))
def test_what_brokers_send_is_read_as_msgspec_reads_it(
    several: list[Publication], epoch: int, rest: tuple[int, int, int, int]
) -> None:
    sent = encode(Batch(epoch, *rest, several))
    assert outcome(packing.unpack, sent) == outcome(decode, sent)
    assert packing.compiled is not None
    read = packing.compiled.unpack(sent, 5, packing._MEMBERS, packing._OTHERS, packing._LIMITS)
    plain = all(not each.extension and len(each.attributes) <= 16_384 for each in several)
    assert (read is not None) == plain


@both
@pytest.mark.parametrize("kind", [Publish, Batch])
def test_every_mutilated_frame_has_the_same_fate(
    compiled: ModuleType | None, kind: type[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "compiled", compiled)
    random, right = Random(4), frame(usual(3)) if kind is Publish else batch(3)
    fates = {True: 0, False: 0}
    for _ in range(20_000):
        wrong = bytearray(right)
        for _ in range(random.randrange(1, 3)):
            wrong[random.randrange(len(wrong))] = random.choice((0, 0x7F, 0x94, 0xC4, 0xCC, 0xCF, 0xFF, 0xDC))
        if random.random() < 0.2:
            del wrong[random.randrange(1, len(wrong)) :]
        had = outcome(packing.unpack, bytes(wrong))
        assert had == outcome(decode, bytes(wrong)), wrong.hex()
        fates[isinstance(had, str)] += 1
    assert min(fates.values()) > 1_000


@needs_compiled
def test_limits_are_those_of_the_codec() -> None:
    longest = [Draft(b"a" * 16_384, b"", 2**63 - 1, 0xFFFF)]
    assert isinstance(packing.unpack(memoryview(frame(longest))), Publish)
    beyond = [
        Draft(b"a" * 16_385, b"", 1),
        Draft(b"", b"", 2**63),
        Draft(b"", b"", 1, 0x1_0000),
        Draft(b"", b"p" * (8 * 1024 * 1024 + 1), 1),
    ]
    wrong = [frame([each]) for each in beyond]
    wrong += [frame(usual(1), first=2**63), frame([Draft(b"", b"", 1)] * 65_537), b""]
    for each in wrong:
        fate = outcome(packing.unpack, each)
        assert isinstance(fate, str) and fate == outcome(decode, each)


@needs_compiled
def test_nothing_is_left_behind() -> None:
    sent, broken = memoryview(frame(usual(50))), memoryview(frame(usual(50))[:-1])
    before = sys.getrefcount(Publication)
    for _ in range(100):
        read = packing.unpack(sent)
        assert isinstance(read, Publish) and len(packing.pack(read.publications)) > 0
        assert isinstance(outcome(packing.unpack, broken), str)
    assert sys.getrefcount(Publication) == before + 50
    del read
    assert sys.getrefcount(Publication) == before


@needs_compiled
def test_what_the_publications_of_a_publisher_share_is_one_object() -> None:
    read = packing.unpack(memoryview(batch(4)))
    assert isinstance(read, Batch)
    first, second, third, _ = read.publications
    assert first.publisher is second.publisher and first.accepted_at is second.accepted_at
    assert [first.incarnation, third.incarnation] == [5, 6] and third.accepted_at == 2.5
    shared, before = first.publisher, sys.getrefcount(first.publisher)
    for _ in range(100):
        assert packing.unpack(memoryview(batch(4))) == read
        assert isinstance(outcome(packing.unpack, batch(4)[:-1]), str)
    assert sys.getrefcount(shared) == before


@needs_compiled
def test_limits_of_batches_are_those_of_the_codec() -> None:
    wrong: list[tuple[str, Any]] = [
        ("hops", 256),
        ("plane", 2**63),
        ("accepted_at", 1.1e12),
        ("accepted_at", -1.0),
    ]
    wrong += [("accepted_at", float("nan")), ("extension", b"no flag"), ("accepted_at", 3)]
    for field, value in wrong:
        each = Publication(b"\x80", b"x", 1)
        setattr(each, field, value)
        sent = encode(Batch(7, 1, 2, 3, 4, [each, each]))
        assert outcome(packing.unpack, sent) == outcome(decode, sent), field


@needs_compiled
def test_attributes_that_come_again_are_one_object() -> None:
    read = packing.unpack(memoryview(frame(usual(14))))
    assert isinstance(read, Publish)
    assert all(read.publications[n].attributes is read.publications[n + 7].attributes for n in range(7))


@needs_compiled
def test_other_members_are_refused() -> None:
    compiled: Any = packing.compiled
    for members in ((), packing._MEMBERS[:9], (*packing._MEMBERS[:9], object())):
        with pytest.raises(TypeError):
            compiled.pack([], members)
        with pytest.raises(TypeError):
            compiled.unpack(frame(usual(1)), 2, members, packing._OTHERS, packing._LIMITS)
    with pytest.raises(TypeError):
        compiled.unpack(frame(usual(1)), 2, packing._MEMBERS, (), packing._LIMITS)
    for numbers in (0, 9):
        with pytest.raises(ValueError):
            compiled.unpack(frame(usual(1)), numbers, packing._MEMBERS, packing._OTHERS, packing._LIMITS)
    assert compiled.pack(usual(1), packing._MEMBERS) is None, "drafts are no publications"


def test_a_module_that_does_something_else_is_not_used() -> None:
    class Other:
        pack = staticmethod(lambda publications, members: b"")
        unpack = staticmethod(lambda *given: None)

    assert not packing._agrees(cast(Any, Other))
    assert packing.compiled is None or packing._agrees(packing.compiled)
    assert codec.decode(frame(usual(1))) == packing.unpack(memoryview(frame(usual(1))))
