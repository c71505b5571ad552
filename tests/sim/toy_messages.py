"""What brokers of the toy overlay say to each other, and what they remember of a question."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.messages import Publication
from overlay.data.client import Client
from overlay.links.session import Remote
from overlay.links.settling import Settling


class Known(msgspec.Struct, frozen=True, array_like=True):
    """All publishers at home at the sender, each with the numbers of its advertisements."""

    kind: ClassVar[int] = 250
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: int
    publishers: tuple[tuple[int, int, str], ...]


class Heard(msgspec.Struct, frozen=True, array_like=True):
    kind: ClassVar[int] = 251
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: int


class Ask(msgspec.Struct, frozen=True, array_like=True):
    kind: ClassVar[int] = 252
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: int
    attributes: tuple[bytes, ...]


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    kind: ClassVar[int] = 253
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: int
    wanted: tuple[bool, ...]


class Staged:
    """A batch of one publisher that is asked about; `wanted` by the members that have answered."""

    def __init__(self, client: Client, publications: list[Publication], record: Settling) -> None:
        self.client = client
        self.publications = publications
        self.record = record
        self.waits: dict[Remote, None] = {}
        self.wanted: dict[Remote, tuple[bool, ...]] = {}
