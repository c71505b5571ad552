"""Named mistakes of the one-hop overlay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from grapevine.wire import decode_attributes
from grapevine.wire.onehop import Ask
from overlay.onehop.asking import Asking
from overlay.onehop.delivering import MatcherPublications
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.publications import OneHopPublications
from overlay.onehop.stage import Slot, Stage

Replacement = tuple[type[Any], str, Callable[..., Any]]


def _answer_while_incomplete() -> list[Replacement]:
    """A dispatcher believes whatever a matcher answers, for whomever it is complete."""
    return [(Asking, "_believed", lambda self, member, registered: True)]


def _confirm_without_avoid() -> list[Replacement]:
    """A subscription is confirmed without a matcher that cannot be reached, and nobody is told."""
    return [
        (Placing, "_unsafe", lambda self: False),
        (Placing, "_tell", lambda self, matcher, member: None),
    ]


def _release_out_of_prefix() -> list[Replacement]:
    """What is answered goes, whatever came before it."""

    def all_answered(self: Stage) -> list[Slot]:
        found = [slot for slot in self.slots if slot.matches is not None]
        for slot in found:
            self.slots.remove(slot)
        return found

    return [(Stage, "releasable", all_answered)]


def _stale_owner_answers() -> list[Replacement]:
    """A matcher answers for values that it does not own."""

    def everything(self: Matching, ask: Ask, refused: list[int]) -> Iterator[Any]:
        return ((place, decode_attributes(attributes)) for place, attributes in enumerate(ask.attributes))

    return [(Matching, "_ours", everything)]


def _home_batches_on_the_first_lane() -> list[Replacement]:
    """`delivery = "matcher"` on one lane: who asks and who is told wait for the same window."""
    return [(MatcherPublications, "lane_to", lambda self, home: home)]


def _newer_before_what_is_stranded() -> list[Replacement]:
    """A home that lacks a durable publication gets newer ones of that publisher."""
    return [(OneHopPublications, "_is_behind", lambda self, home, source: False)]


def _streams_end_with_a_life() -> list[Replacement]:
    """What was matched for a dispatcher's earlier life is for nobody."""

    def release(
        self: OneHopPublications,
        side: Any,
        run: list[tuple[Any, Any]],
        record: Any,
        now: float,
    ) -> None:
        living = [
            (publication, {home: found for home, found in homes.items() if not _is_older(self, home, found)})
            for publication, homes in run
        ]
        _release(self, side, living, record, now)

    return [
        (Asking, "_member_met", lambda self, member, now: None),
        (OneHopPublications, "release", release),
    ]


_release = OneHopPublications.release


def _is_older(self: OneHopPublications, home: int, found: tuple[int, bytes]) -> bool:
    member = self.cluster.get(home)
    return member is not None and found[0] < member.incarnation


ONEHOP_DURABLE_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "newer-before-what-is-stranded": _newer_before_what_is_stranded,
    "streams-end-with-a-life": _streams_end_with_a_life,
}

ONEHOP_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "answer-while-incomplete": _answer_while_incomplete,
    "confirm-without-avoid": _confirm_without_avoid,
    "release-out-of-prefix": _release_out_of_prefix,
    "stale-owner-answers": _stale_owner_answers,
    "home-batches-on-the-first-lane": _home_batches_on_the_first_lane,
}
