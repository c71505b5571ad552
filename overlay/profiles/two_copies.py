"""Of what a broker of the tree has in custody its parent keeps a copy, or of a root its lowest neighbour."""

from __future__ import annotations

from overlay.administration.census import Census
from overlay.administration.forgetting import Forgetting
from overlay.behaviour import Behaviour
from overlay.journal.copying import Copying
from overlay.journal.holding import Holding
from overlay.journal.journal import Journal, Opened
from overlay.journal.keeper import Keeper
from overlay.journal.stand_in import StandIns
from overlay.tree.join import Join
from overlay.tree.peer import Peer, peers_of


def two_copies(
    on_disk: tuple[Behaviour, ...], opened: Opened | None, join: Join, census: Census
) -> tuple[Behaviour, ...]:
    """What keeps something on disk, with who keeps copies for others, and has some made if it is to."""
    if opened is None:
        return on_disk
    journal, holding, stand_ins, *others = on_disk
    assert isinstance(journal, Journal) and isinstance(holding, Holding) and isinstance(stand_ins, StandIns)
    copying = Copying(journal, holding, stand_ins, bool(opened.holes or opened.torn))
    copying.choose = lambda: keeper_of(join)
    keeper = Keeper(journal, copying, stand_ins)
    forgetting = Forgetting(census, keeper, copying)
    return journal, holding, copying, stand_ins, keeper, forgetting, *others


def keeper_of(join: Join) -> Peer | None:
    if join.parent is not None:
        return join.parent if join.parent.live else None
    there = [peer for peer in peers_of(join.core).values() if peer.live and not peer.departed]
    return min(there, key=lambda peer: peer.id, default=None)
