"""What an application receives."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from grapevine.client.session.context import context_of
from grapevine.filters.normal import Value
from grapevine.wire.codec import decode_attributes
from grapevine.wire.messages import Publication


class Names(dict[int, tuple[str, str]]):
    """Publisher's id -> its name, its first broker's name; and how this client answers a request."""

    __slots__ = ("reply",)
    reply: Callable[[Message, Mapping[str, Value], bytes], Any]


class Message(msgspec.Struct, eq=False, gc=False):
    """One publication as it reached this client. Attributes are decoded when they are first asked for."""

    publication: Publication
    numbers: bytes  # u32, little-endian
    names: Names
    decoded: dict[str, Value] | None = None

    @property
    def attributes(self) -> dict[str, Value]:
        if self.decoded is None:
            self.decoded = decode_attributes(self.publication.attributes)
        return self.decoded

    @property
    def payload(self) -> bytes:
        return self.publication.payload

    @property
    def publisher(self) -> str:
        """The publisher's name."""
        return self._name(0)

    @property
    def broker(self) -> str:
        """The name of the broker that accepted it."""
        return self._name(1)

    @property
    def sequence(self) -> int:
        return self.publication.sequence

    @property
    def accepted_at(self) -> float:
        """Seconds since 1970 by the clock of the broker that accepted it."""
        return self.publication.accepted_at

    @property
    def hops(self) -> int:
        return self.publication.hops

    @property
    def context(self) -> str | None:
        """The traceparent that it was published with."""
        return context_of(self.publication)

    def reply(self, attributes: Mapping[str, Value] | None = None, payload: bytes = b"") -> Any:
        """Answer a request; awaited with asyncio. It goes to who asked, like any publication, and only
        there."""
        return self.names.reply(self, attributes or {}, payload)

    @property
    def subscriptions(self) -> tuple[int, ...]:
        """Numbers of all subscriptions of this client that it matched."""
        return struct.unpack(f"<{len(self.numbers) // 4}I", self.numbers)

    def _name(self, index: int) -> str:
        names = self.names.get(self.publication.publisher)
        return names[index] if names else ""

    def __repr__(self) -> str:
        return f"Message({self.publisher!r} #{self.sequence}, {self.attributes}, {len(self.payload)} bytes)"
