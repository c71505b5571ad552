"""How a question spreads in a cluster where everybody has a link to everybody: who begins asks all, once."""

from __future__ import annotations

from grapevine.wire.messages import CensusRequest
from overlay.administration.census import Spread
from overlay.core import Core
from overlay.links.session import Remote


def directly(core: Core) -> Spread:
    def spread(request: CensusRequest, came_from: Remote | None) -> list[tuple[Remote, CensusRequest]]:
        return [] if came_from is not None else [(peer, request) for peer in core.peers.values()]

    return spread
