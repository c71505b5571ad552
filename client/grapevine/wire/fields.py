"""Types of message fields. Each carries its limit, so that decoding a field is also checking it.

A type checker sees plain ints, strings and tuples; constructing a message checks nothing, since only
bytes from outside can be wrong. Lengths of strings are counted here in characters, `codec` adds the
bytes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from grapevine.wire import limits

Id: TypeAlias = Annotated[int, Meta(ge=0)]  # 64 bits without a sign
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # of a client's subscription or advertisement
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=limits.HOPS)]
Flags: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF)]
Batch: TypeAlias = Annotated[int, Meta(ge=0, le=limits.BATCH_NUMBER)]  # of a query that feeds
Rows: TypeAlias = Annotated[int, Meta(ge=0, le=limits.BATCH_PUBLICATIONS)]  # of one frame
Policy: TypeAlias = Annotated[int, Meta(ge=0, le=2)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=limits.SECONDS)]  # the bounds refuse NaN and infinity

Name: TypeAlias = Annotated[str, Meta(max_length=limits.NAME_BYTES)]
Text: TypeAlias = Annotated[str, Meta(max_length=limits.TEXT_BYTES)]
Body: TypeAlias = Annotated[bytes, Meta(max_length=limits.FRAME_BYTES)]
AttributeBytes: TypeAlias = Annotated[bytes, Meta(max_length=limits.ATTRIBUTE_BYTES)]
PayloadBytes: TypeAlias = Annotated[bytes, Meta(max_length=limits.PAYLOAD_BYTES)]
ExtensionBytes: TypeAlias = Annotated[bytes, Meta(max_length=limits.EXTENSION_BYTES)]

Degrees: TypeAlias = Annotated[float, Meta(ge=-180.0, le=180.0)]
Location: TypeAlias = tuple[Degrees, Degrees]  # latitude, longitude

Ids: TypeAlias = Annotated[tuple[Id, ...], Meta(max_length=limits.LIST_ENTRIES)]
Path: TypeAlias = Annotated[tuple[Id, ...], Meta(min_length=1, max_length=limits.PATH_BROKERS)]
RootPath: TypeAlias = Annotated[tuple[Id, ...], Meta(max_length=limits.ROOT_PATH_BROKERS)]
Addresses: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=limits.ADDRESSES)]
NameList: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=limits.LIST_ENTRIES)]
Settings: TypeAlias = Annotated[dict[Name, Name], Meta(max_length=limits.SETTINGS)]
Argument: TypeAlias = Text | int | float | bool | None
Arguments: TypeAlias = Annotated[dict[Name, Argument], Meta(max_length=limits.SETTINGS)]
Reports: TypeAlias = Annotated[tuple[Body, ...], Meta(max_length=limits.LIST_ENTRIES)]
NumberList: TypeAlias = Annotated[bytes, Meta(max_length=4 * limits.SUBSCRIPTION_IDS)]  # u32, little-endian
NumberLists: TypeAlias = Annotated[list[NumberList], Meta(max_length=limits.BATCH_PUBLICATIONS)]
