"""Frames to messages and back: one byte of kind, then the message as an array in msgpack.

Everything that comes from another process is parsed here and nowhere else. `decode` and
`decode_attributes` raise WireError whatever the bytes are, and nothing else; what they return is within
every limit of `limits`. Most limits are part of the field types and cost nothing extra; only what a type
cannot say is checked below, per frame or per distinct value rather than per publication.

Fields after those known here are skipped, so that a newer peer may append some; fields at the end that
have a default may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from grapevine.errors import Invalid
from grapevine.filters.checking import check
from grapevine.filters.checking import check_attributes as say_what_is_wrong
from grapevine.filters.limits import ATTRIBUTE_CHARS, ATTRIBUTES, INT_MAX, INT_MIN, NAME_CHARS
from grapevine.filters.normal import Value
from grapevine.wire import feeding, keeping, mesh, onehop, relocation, streams
from grapevine.wire import messages as wire
from grapevine.wire.drafts import Draft
from grapevine.wire.errors import WireError
from grapevine.wire.extensions import decode_extension
from grapevine.wire.limits import ATTRIBUTE_BYTES, FRAME_BYTES, NAME_BYTES, TEXT_BYTES
from grapevine.wire.messages import EXTENDED, KINDS, Message, Publication

Attributes: TypeAlias = dict[str, Value]

# What msgspec raises over bytes: its own errors, bad UTF-8 (a ValueError), nesting, 64-bit overflow.
_BAD_BYTES = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

Encoded: TypeAlias = Sequence[Draft] | msgspec.Raw  # publications, or what they are encoded to

_encode = msgspec.msgpack.Encoder().encode
_encode_into = msgspec.msgpack.Encoder().encode_into
_KIND_BYTE: list[bytes] = [bytes((kind,)) for kind in range(256)]
_BATCH = _KIND_BYTE[wire.Batch.kind]
_EXCLUDING = _KIND_BYTE[wire.ExcludingBatch.kind]
_LANE = _KIND_BYTE[wire.LaneBatch.kind]
_HOME = _KIND_BYTE[wire.HomeBatch.kind]
_PUBLISH = _KIND_BYTE[wire.Publish.kind]
_DELIVER = _KIND_BYTE[wire.Deliver.kind]


# --- encoding ------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    return _KIND_BYTE[message.kind] + _encode(message)


def write(buffer: bytearray, message: Message) -> None:
    """The frame of a message as all that is in `buffer`, which can be used again and again."""
    buffer[:1] = _KIND_BYTE[message.kind]
    _encode_into(message, buffer, 1)


def encode_publications(publications: Sequence[Draft]) -> msgspec.Raw:
    """Publications encoded once, to be spliced into the frames of several destinations."""
    return msgspec.Raw(_encode(publications))


def encode_publish(epoch: int, first: int, publications: msgspec.Raw) -> bytes:
    """The frame of a Publish whose publications are encoded already."""
    return _PUBLISH + _encode((epoch, first, publications))


def write_batch(
    buffer: bytearray, epoch: int, first: int, received: int, settled: int, credit: int, publications: Encoded
) -> None:
    """The frame of a Batch as all that is in `buffer`."""
    buffer[:1] = _BATCH
    _encode_into((epoch, first, received, settled, credit, publications), buffer, 1)


def write_excluding(
    buffer: bytearray,
    epoch: int,
    first: int,
    received: int,
    settled: int,
    credit: int,
    publications: Encoded,
    exclusions: mesh.Exclusions,
) -> None:
    """The frame of an ExcludingBatch as all that is in `buffer`."""
    buffer[:1] = _EXCLUDING
    _encode_into((epoch, first, received, settled, credit, publications, exclusions), buffer, 1)


def write_lane(
    buffer: bytearray,
    epoch: int,
    first: int,
    received: int,
    settled: int,
    credit: int,
    publications: Encoded,
    lane: int,
    exclusions: mesh.Exclusions,
) -> None:
    """The frame of a LaneBatch as all that is in `buffer`."""
    buffer[:1] = _LANE
    _encode_into((epoch, first, received, settled, credit, publications, lane, exclusions), buffer, 1)


def write_home(
    buffer: bytearray,
    epoch: int,
    first: int,
    received: int,
    settled: int,
    credit: int,
    publications: Encoded,
    clients: Sequence[bytes],
    lane: int,
) -> None:
    """The frame of a HomeBatch as all that is in `buffer`."""
    buffer[:1] = _HOME
    _encode_into((epoch, first, received, settled, credit, publications, clients, lane), buffer, 1)


def write_deliver(
    buffer: bytearray,
    epoch: int,
    first: int,
    received: int,
    settled: int,
    credit: int,
    publications: Encoded,
    subscriptions: Sequence[bytes],
    protocol: int = wire.PROTOCOL,
) -> None:
    """The frame of a Deliver as all that is in `buffer`, for who speaks `protocol`: a list that all
    publications share is written once."""
    if protocol >= wire.SHARED_LISTS and subscriptions and subscriptions[0] == subscriptions[-1]:
        if subscriptions.count(subscriptions[0]) == len(subscriptions):
            subscriptions = subscriptions[:1]
    buffer[:1] = _DELIVER
    _encode_into((epoch, first, received, settled, credit, publications, subscriptions), buffer, 1)


# The attributes in the order given, not yet checked; BAD_ATTRIBUTES for what cannot be encoded.
pack: Callable[[Mapping[str, Value]], bytes] = msgspec.msgpack.Encoder().encode
BAD_ATTRIBUTES = (TypeError, *_BAD_BYTES)


def pack_attributes(attributes: Mapping[str, Value]) -> bytes:
    """The same, with Invalid for what cannot be encoded."""
    try:
        return pack(attributes)
    except BAD_ATTRIBUTES as error:
        raise unpackable(attributes, b"", error) from None


def unpackable(attributes: Mapping[str, Value], payload: bytes, error: Exception) -> Invalid:
    """What of a publication cannot be sent, by the name of the attribute where it is one's fault."""
    try:
        check_payload(payload)
        _say_what_is_wrong(attributes)
    except Invalid as named:
        return named
    return Invalid(f"attributes cannot be sent: {error}")


def _say_what_is_wrong(attributes: Any) -> None:
    if not isinstance(attributes, Mapping):
        raise Invalid(f"attributes are a dictionary of names and values, not {type(attributes).__name__}")
    try:
        say_what_is_wrong(attributes)
    except ValueError as error:
        raise Invalid(str(error)) from None


def check_payload(payload: Any) -> None:
    if not isinstance(payload, bytes | bytearray | memoryview):
        hint = ": encode it" if isinstance(payload, str) else ""
        raise Invalid(f"a payload is bytes, not {type(payload).__name__}{hint}")


def check_attributes(packed: bytes, attributes: Mapping[str, Value]) -> None:
    """Invalid for what `decode_attributes` would refuse, so that the sender hears of it."""
    _say_what_is_wrong(attributes)
    try:
        decode_attributes(packed)
    except WireError as error:
        raise Invalid(f"attributes cannot be sent: {error}") from None


def encode_attributes(attributes: Mapping[str, Value]) -> bytes:
    """The attributes in the order given. Invalid for what `decode_attributes` would refuse."""
    packed = pack_attributes(attributes)
    check_attributes(packed, attributes)
    return packed


# --- decoding ------------------------------------------------------------------------------------

_SIGNED = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_STRING = Annotated[str, msgspec.Meta(max_length=ATTRIBUTE_CHARS)]
_NAME = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS)]
_ATTRIBUTES = Annotated[dict[_NAME, bool | _SIGNED | float | _STRING], msgspec.Meta(max_length=ATTRIBUTES)]
_decode_attributes = cast(
    Callable[[bytes], Attributes], msgspec.msgpack.Decoder(cast(Any, _ATTRIBUTES)).decode
)

_decode_publications = cast(
    Callable[[bytes], list[Publication]], msgspec.msgpack.Decoder(cast(Any, wire.Publications)).decode
)


def decode(frame: bytes | memoryview) -> Message:
    """The message of a frame, within every limit. Raises WireError and nothing else."""
    if not frame or len(frame) > FRAME_BYTES:
        raise WireError(f"frame of {len(frame)} bytes")
    kind = frame[0]
    decoder = _DECODERS[kind]
    if decoder is None:
        raise WireError(f"unknown kind {kind}")
    try:
        message = decoder(memoryview(frame)[1:])
        checks = _CHECKS[kind]
        if checks is not None:
            checks(message)
    except _BAD_BYTES as error:
        raise WireError(f"{KINDS[kind].__name__}: {error}") from None
    return message


def decode_attributes(encoded: bytes) -> Attributes:
    """The attributes of a publication; WireError if they are not a map of names to values."""
    if len(encoded) > ATTRIBUTE_BYTES:
        raise WireError(f"attributes of {len(encoded)} bytes are over the limit of {ATTRIBUTE_BYTES}")
    try:
        attributes = _decode_attributes(encoded)
    except _BAD_BYTES as error:
        raise WireError(f"attributes: {error}") from None
    if 0xCB in encoded or 0xCA in encoded:  # may hold a float, hence NaN; a number is found faster than bytes
        for value in attributes.values():
            if value != value:
                raise WireError("attributes: NaN")
    return attributes


def decode_publications(encoded: bytes) -> list[Publication]:
    """What `encode_publications` made; WireError and nothing else."""
    try:
        publications = _decode_publications(encoded)
        _check_publications(publications)
    except _BAD_BYTES as error:
        raise WireError(f"publications: {error}") from None
    return publications


# --- what the field types cannot say; each raises WireError or ValueError ----------------------


def _check_bytes(limit: int, *texts: str) -> None:
    for text in texts:
        if len(text) * 4 > limit and len(text.encode()) > limit:
            raise WireError(f"text of {len(text.encode())} bytes, limit {limit}")


def _check_answer(word: str, text: str) -> None:
    _check_bytes(NAME_BYTES, word)
    _check_bytes(TEXT_BYTES, text)


def _check_cuts(cuts: Iterable[wire.Cut]) -> None:
    for cut in cuts:
        if cut.first > cut.last:
            raise WireError("a cut ends before it begins")


def _check_resume(resume: wire.Resume | None) -> None:
    if resume is not None:
        _check_cuts(resume.cuts)


def _check_publications(publications: list[Publication]) -> None:
    for publication in publications:
        if publication.extension:
            _check_extension(publication)


def _check_extension(publication: Publication) -> None:
    if not publication.flags & EXTENDED:
        raise WireError("an extension block without its flag")
    decode_extension(publication.extension)


def _check_hello(hello: wire.Hello) -> None:
    _check_bytes(NAME_BYTES, hello.name, *hello.settings, *hello.settings.values(), *hello.addresses)
    _check_resume(hello.resume)
    for _, resume in hello.resumes:
        _check_resume(resume)


def _check_attach(attach: wire.Attach) -> None:
    _check_bytes(NAME_BYTES, attach.name)
    _check_resume(attach.resume)


def _check_advertisement(advertisement: wire.Advertisement) -> None:
    _check_bytes(NAME_BYTES, advertisement.home_name, advertisement.publisher_name)
    check(advertisement.filter)


def _check_keep(keep: keeping.Keep) -> None:
    for publisher in keep.publishers:
        _check_bytes(NAME_BYTES, publisher.name)
        for filter in (*publisher.filters, publisher.may_publish):
            check(filter)


def _check_leaving(leaving: wire.Leaving) -> None:
    _check_bytes(NAME_BYTES, leaving.successor_name, *leaving.successor_addresses)


def _check_neighbourhood(message: mesh.Neighbourhood) -> None:
    for nearby in message.branch:
        _check_bytes(NAME_BYTES, nearby.name, *nearby.addresses)


def _check_trace_answer(answer: relocation.TraceInformationAnswer) -> None:
    _check_bytes(NAME_BYTES, *answer.missing)
    for trace in answer.traces:
        _check_bytes(NAME_BYTES, trace.name, *trace.addresses)


def _check_round_trips(request: relocation.RoundTripsRequest) -> None:
    for broker in request.brokers:
        _check_bytes(NAME_BYTES, *broker.addresses)


def _check_commit(commit: feeding.CommitBatch) -> None:
    _check_bytes(NAME_BYTES, commit.query, commit.publisher)
    check(commit.advertisement)


def _check_stream_request(request: streams.StreamRequest) -> None:
    _check_bytes(NAME_BYTES, request.stream, request.cursor, request.start)
    if request.filter is not None:
        check(request.filter)


def _check_stream_state(state: streams.StreamState) -> None:
    _check_bytes(NAME_BYTES, state.outcome, state.stream, *state.addresses)
    _check_bytes(TEXT_BYTES, state.text)


def _check_command(command: wire.Command) -> None:
    _check_bytes(NAME_BYTES, command.verb, *command.arguments)
    for argument in command.arguments.values():
        if isinstance(argument, str):
            _check_bytes(TEXT_BYTES, argument)
        elif isinstance(argument, float) and argument - argument != 0:  # NaN or infinite
            raise WireError("an argument is not a finite number")


def _check_excluding(batch: wire.ExcludingBatch | wire.LaneBatch) -> None:
    _check_publications(batch.publications)
    place = 0
    for exclusion in batch.exclusions:
        if not place <= exclusion.start < exclusion.end:
            raise WireError("exclude lists out of order")
        place = exclusion.end
    if place > len(batch.publications):
        raise WireError("an exclude list of nothing")


def _check_home(batch: wire.HomeBatch) -> None:
    _check_publications(batch.publications)
    if len(batch.clients) != len(batch.publications):
        raise WireError("not one list of clients per publication")


def _check_entries(entries: Iterable[onehop.Entry]) -> None:
    for entry in entries:
        _check_bytes(NAME_BYTES, entry.name, *entry.addresses)
        for spans in entry.segments:
            _check_spans(spans)


def _check_spans(spans: Iterable[onehop.Span]) -> None:
    for span in spans:
        if span.low != span.low or span.high != span.high:
            raise WireError("a segment ends at NaN")


def _check_sample(sample: onehop.PublicationSample) -> None:
    if any(value != value for point in sample.points for value in point):
        raise WireError("a sample has NaN")


def _check_fill(fill: onehop.Fill) -> None:
    for spans in fill.segments:
        _check_spans(spans)


def _check_place(place: onehop.Place) -> None:
    for placement in place.placements:
        check(placement.filter)


def _check_matched(matched: onehop.Matched) -> None:
    if any(len(home.positions) != len(home.clients) for home in matched.matches):
        raise WireError("not one list of clients per position")


def _check_deliver(deliver: wire.Deliver) -> None:
    _check_publications(deliver.publications)
    lists, count = deliver.subscriptions, len(deliver.publications)
    if len(lists) != count and (len(lists) != 1 or not count):
        raise WireError("neither one list of subscriptions per publication nor one for all")
    if any(size & 3 for size in {*map(len, lists)}):
        raise WireError("a list of subscriptions is cut off")
    if len(lists) != count:
        deliver.subscriptions = lists * count


_CHECK: dict[type[Any], Callable[[Any], None]] = {
    wire.Hello: _check_hello,
    wire.Refuse: lambda m: _check_answer(m.reason, m.text),
    wire.Marks: lambda m: _check_cuts(m.cuts),
    wire.Batch: lambda m: _check_publications(m.publications),
    wire.ExcludingBatch: _check_excluding,
    wire.LaneBatch: _check_excluding,
    wire.LaneMarks: lambda m: _check_cuts(m.cuts),
    wire.HomeBatch: _check_home,
    onehop.Member: lambda m: _check_entries((m.entry,)),
    onehop.Entries: lambda m: _check_entries(m.entries),
    onehop.Place: _check_place,
    onehop.Fill: _check_fill,
    onehop.Matched: _check_matched,
    onehop.PublicationSample: _check_sample,
    onehop.Offer: lambda m: _check_spans(() if m.span is None else (m.span,)),
    onehop.Taken: lambda m: _check_spans((m.span,)),
    onehop.PublisherNews: lambda m: _check_bytes(NAME_BYTES, m.name),
    wire.Leaving: _check_leaving,
    wire.Advertise: lambda m: _check_advertisement(m.advertisement),
    wire.Subscribe: lambda m: check(m.subscription.filter),
    wire.CensusRequest: lambda m: _check_bytes(NAME_BYTES, m.question),
    wire.CensusAnswer: lambda m: _check_bytes(NAME_BYTES, *m.missing, *m.cut_off),
    wire.TraceAnswer: lambda m: _check_bytes(NAME_BYTES, *m.missing),
    wire.Attach: _check_attach,
    wire.Attached: lambda m: _check_bytes(NAME_BYTES, m.broker_name, *m.addresses),
    wire.ClientSubscribe: lambda m: check(m.filter),
    wire.ClientAdvertise: lambda m: check(m.filter),
    wire.Done: lambda m: _check_answer(m.outcome, m.text),
    wire.Publish: lambda m: _check_publications(m.publications),
    wire.ExtendedPublish: lambda m: _check_publications(m.publications),
    wire.Deliver: _check_deliver,
    wire.Names: lambda m: _check_bytes(NAME_BYTES, m.name, m.broker_name),
    wire.GoAway: lambda m: _check_bytes(NAME_BYTES, *m.addresses),
    mesh.Neighbourhood: _check_neighbourhood,
    relocation.RelocationAnswer: lambda m: _check_bytes(NAME_BYTES, m.name, *m.addresses),
    relocation.TraceInformationAnswer: _check_trace_answer,
    relocation.Relocate: lambda m: _check_bytes(NAME_BYTES, m.name, *m.addresses),
    relocation.MigrationUpdate: lambda m: _check_bytes(NAME_BYTES, m.name),
    relocation.Relocated: lambda m: _check_bytes(NAME_BYTES, m.outcome),
    relocation.RelocateEnd: lambda m: _check_bytes(NAME_BYTES, m.outcome),
    relocation.RoundTripsRequest: _check_round_trips,
    feeding.StageBegin: lambda m: _check_bytes(NAME_BYTES, m.query),
    feeding.Staged: lambda m: _check_answer(m.outcome, m.text),
    feeding.CommitBatch: _check_commit,
    feeding.AbortBatch: lambda m: _check_bytes(NAME_BYTES, m.query),
    feeding.BatchState: lambda m: _check_answer(m.outcome, m.text),
    streams.Fetch: lambda m: _check_bytes(NAME_BYTES, m.stream, m.cursor),
    keeping.Keep: _check_keep,
    streams.Fetched: lambda m: _check_bytes(NAME_BYTES, m.outcome, *(gap.reason for gap in m.gaps)),
    streams.Acknowledge: lambda m: _check_bytes(NAME_BYTES, m.stream, m.cursor),
    streams.Acknowledged: lambda m: _check_bytes(NAME_BYTES, m.stream, m.cursor),
    streams.StreamRequest: _check_stream_request,
    streams.StreamState: _check_stream_state,
    wire.Command: _check_command,
    wire.Answer: lambda m: _check_answer(m.outcome, m.text),
}

_DECODERS: list[Callable[[memoryview], Message] | None] = [None] * 256
_CHECKS: list[Callable[[Any], None] | None] = [None] * 256
for _kind, _class in KINDS.items():
    _DECODERS[_kind] = msgspec.msgpack.Decoder(_class).decode
    _CHECKS[_kind] = _CHECK.get(_class)
