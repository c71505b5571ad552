"""DECISIONS 18: the exclude list of a publication, and what stands before a queue.

It names brokers. Who gets the publication serves no anchor whose primary path passes one of them, and passes
a name on to copies whose target lies before that broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.extensions import EXCLUDE, decode_extension, encode_extension
from grapevine.wire.messages import EXTENDED, Publication
from matching.routes import RouteCache
from overlay.links.session import Remote
from overlay.tree.runs import extended, extended_one

Excluded = frozenset[int]
NONE: Excluded = frozenset()
ID_BYTES = 8


def encode_names(names: Iterable[int]) -> bytes:
    return encode_extension([(EXCLUDE, b"".join(name.to_bytes(ID_BYTES, "big") for name in sorted(names)))])


def take_names(publication: Publication) -> Excluded:
    """Remove the list from the publication and return it; other records stay."""
    records = decode_extension(publication.extension)
    names = b"".join(value for kind, value in records if kind == EXCLUDE)
    publication.extension = encode_extension(record for record in records if record[0] != EXCLUDE)
    if not publication.extension:
        publication.flags &= ~EXTENDED
    return frozenset(
        int.from_bytes(names[at : at + ID_BYTES], "big") for at in range(0, len(names), ID_BYTES)
    )


class Narrowed:
    """A neighbour's publications that exclude certain brokers or are in a plane: routed, and cached, on their
    own."""

    __slots__ = ("excluded", "name", "plane", "routes", "session")

    def __init__(self, session: Remote, excluded: Excluded, plane: int = 0) -> None:
        self.session = session
        self.name = session.name
        self.excluded = excluded
        self.plane = plane
        self.routes = RouteCache()


class Stamped:
    """A queue whose publications leave with an exclude list."""

    __slots__ = ("block", "names", "queue")

    def __init__(self, queue: list[Publication], names: Excluded) -> None:
        self.queue = queue
        self.names = names
        self.block = encode_names(names)

    def append(self, publication: Publication, /) -> None:
        self.queue.append(extended_one(publication, EXTENDED, self.block))

    def __iadd__(self, publications: Iterable[Publication], /) -> Stamped:
        run = publications if isinstance(publications, list) else list(publications)
        if len(run) == 1:  # a call of the compiled loop costs more than the copy
            self.append(run[0])
        else:
            self.queue += extended(run, EXTENDED, self.block)
        return self


class Tap:
    """Counts what a candidate link would have carried."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def append(self, publication: Publication, /) -> None:
        self.count += 1

    def __iadd__(self, publications: Iterable[Publication], /) -> Tap:
        self.count += sum(1 for _ in publications)
        return self
