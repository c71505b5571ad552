"""Named mistakes of the second copy and of who publishes it (see mutants.py)."""

from __future__ import annotations

from typing import Any

from grapevine.wire.keeping import Keep
from overlay.journal.copying import Copying
from overlay.journal.keeper import Keeper
from overlay.journal.regaining import Regaining
from overlay.links.session import Session

Replacement = tuple[Any, str, Any]


def persisted_before_copied() -> list[Replacement]:
    """What is on this disk counts, whoever keeps a copy."""
    return [(Copying, "_alone", property(lambda self: True))]


def copy_freed_at_persisted() -> list[Replacement]:
    """The keeper lets go of what is persisted, not of what is settled."""
    on_keep = Keeper.on_keep

    def hasty(self: Keeper, peer: Session, keep: Keep, now: float) -> None:
        on_keep(self, peer, keep, now)

        def free(later: float) -> None:
            copied = self.copies.owners.get(peer.id)
            for source, pieces in list(copied.custody.held.items()) if copied is not None else ():
                copied.custody.settle(source, pieces[-1].last)  # type: ignore[union-attr]

        self.journal.when_kept(self.journal.next - 1, free)

    return [(Keeper, "on_keep", hasty)]


def forgotten_while_alive() -> list[Replacement]:
    """Nobody looks whether the broker is there."""
    return [(Keeper, "alive", lambda self, owner: False)]


def returned_without_asking() -> list[Replacement]:
    """Who was forgotten comes back and publishes all that it has."""
    start = Regaining.start

    def certain(self: Regaining, core: Any, reported_loss: bool) -> None:
        start(self, core, reported_loss)
        self.doubt = False

    return [(Regaining, "start", certain)]


def new_keeper_counts_at_once() -> list[Replacement]:
    """The new keeper is not given what was in custody before."""
    begin = Copying._begin

    def short(self: Copying, keeper: Session, link: Any) -> None:
        held, self.journal.contents.custody.held = self.journal.contents.custody.held, {}
        begin(self, keeper, link)
        self.journal.contents.custody.held = held

    return [(Copying, "_begin", short)]


COPY_MUTANTS = {
    "persisted-before-copied": persisted_before_copied,
    "copy-freed-at-persisted": copy_freed_at_persisted,
    "forgotten-while-alive": forgotten_while_alive,
    "returned-without-asking": returned_without_asking,
    "new-keeper-counts-at-once": new_keeper_counts_at_once,
}
