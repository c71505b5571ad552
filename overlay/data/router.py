"""What an overlay says to the parts that all overlays share. This is the whole cut between them.

*Where next*: `Router.hops`. The answer depends on the attributes and on the side they came from, and on
nothing else until `LocalSubscriptions.generation` rises: the data path caches it. An overlay that has to ask
others first takes publications with `Publications.stage` instead and hands them out when it knows
(data/path.py).
*Who publishes*: `sources`, `introduction`, `on_gone`. A source is remembered for duplicates as long as it is
among the sources.
*Who may ask for what, and when everybody knows*: `Registry`. A gather that is handed in is answered, and the
client told, when every broker that must know has confirmed.
*Is the broker ready*: links/readiness.py. *How a question spreads*: administration/census.py.
*What a lost side means*: positions of a lost session end as cut, unless a behaviour takes them back in
`link_losing` and routes them anew (data/reroute.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple, Protocol

from grapevine.filters.normal import Filter
from matching.interface import Attributes
from overlay.data.client import Key
from overlay.data.duplicates import Source
from overlay.data.routes import Hops, Side
from overlay.gather import Gather
from overlay.links.session import Session


class Introduction(NamedTuple):
    """What clients are told of a publisher before its first publication."""

    publisher_name: str
    home_name: str


class Router(Protocol):
    @property
    def sources(self) -> Container[Source]:
        """The publishers' incarnations that are known here."""

    on_gone: list[Callable[[Source], None]]  # called when one of them is no more

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        """The neighbours that publications with this content go to. Without a side: as an administrator
        asks."""

    def introduction(self, publisher: int) -> Introduction | None: ...


class Registry(Protocol):
    """What clients ask of an overlay. Who leaves is unsubscribed; its advertisements end with its session
    (`link_lost`), when all that it published is settled."""

    def refusal(self, filter: Filter) -> str:
        """Why this overlay cannot take such a subscription; "": it can."""

    def subscribe(self, client: Session, filter: Filter, number: int, gather: Gather, now: float) -> Key: ...
    def unsubscribe(self, client: Session, key: Key, now: float) -> None: ...
    def await_subscription(self, key: Key, gather: Gather) -> None:
        """Let `gather` wait for whatever is not confirmed yet of a known subscription."""

    def filter_of(self, key: Key) -> Filter: ...

    def name_taken(self, publisher: int, incarnation: int) -> str:
        """Where another incarnation of this publisher is, if not here; "": nowhere."""

    def advertise(
        self, client: Session, filter: Filter, gather: Gather, now: float, stand_in: bool = False
    ) -> Key:
        """As the publisher; a `stand_in` takes nobody's name."""

    def unadvertise(self, client: Session, key: Key, now: float) -> None: ...
    def await_advertisement(self, key: Key, gather: Gather) -> None: ...
