"""How a publication is marked as traced, and where it goes: what POP and GRAPE share.

A traced publication has the flag TRACED and a record in its extension block that names the session. The mark
goes with it to every broker; whoever does not know the record carries it on.
"""

from __future__ import annotations

from grapevine.wire.extensions import decode_extension, encode_extension
from grapevine.wire.messages import EXTENDED, TRACED, Publication
from grapevine.wire.relocation import TRACE, SessionId, decode_trace, encode_trace
from overlay.core import Core
from overlay.data.duplicates import Source
from overlay.data.path import Publications
from overlay.data.routes import Route, Side
from overlay.settings import RelocationSettings


class Tracer:
    def __init__(self, publications: Publications, settings: RelocationSettings) -> None:
        self.publications = publications
        self.settings = settings
        self._number = 0

    def attach(self, core: Core) -> None:
        self.core = core

    def new_id(self) -> SessionId:
        self._number += 1
        return SessionId(self.core.id, self.core.incarnation, self._number)

    def mark(self, publication: Publication, session: SessionId | None, index: int) -> SessionId:
        """As publication `index` of a session, or as one traced by itself."""
        id = session or self.new_id()
        records = decode_extension(publication.extension) if publication.extension else []
        records.append((TRACE, encode_trace(id, index, session is None)))
        publication.extension = encode_extension(records)
        publication.flags |= TRACED | EXTENDED
        return id

    def read(self, publication: Publication) -> tuple[SessionId, int, bool] | None:
        """The session, the index in it, and whether it is a single trace; nothing if it is not ours."""
        for kind, value in decode_extension(publication.extension):
            if kind == TRACE:
                return decode_trace(value)
        return None

    def known(self, source: Source) -> bool:
        """Whether the publisher still advertises: what is noted of it ends with that."""
        return source in self.publications.router.sources

    def route(self, side: Side, attributes: bytes) -> Route:
        return self.publications.route(side, attributes)
