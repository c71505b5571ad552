"""What publishers in the streams' log are called: a reader may come when they have long gone.

A name is written with the first group that has something of its publisher; before that record it can be asked
of the overlay, which knows everybody whose publications are under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from overlay.data.router import Introduction, Router
from overlay.journal.bodies import Names, encode_body
from overlay.journal.contents import Kept
from overlay.journal.journal import Journal
from overlay.journal.record import NAMES


class PublisherNames:
    def __init__(self, journal: Journal, router: Router) -> None:
        self.contents = journal.contents
        self.router = router
        journal.riding(self._news)

    def of(self, publisher: int) -> Introduction | None:
        living = self.router.introduction(publisher)
        if living is None and publisher in self.contents.names:
            return Introduction(*self.contents.names[publisher])
        return living

    def _news(self) -> Iterator[Kept]:
        contents = self.contents
        unnamed, contents.unnamed = sorted(contents.unnamed), set()
        for publisher in unnamed:
            if (known := self.router.introduction(publisher)) is not None:
                contents.names[publisher] = (known.publisher_name, known.home_name)
        if names := [(one, *contents.names[one]) for one in unnamed if one in contents.names]:
            yield Kept(NAMES, encode_body(Names(names)))
