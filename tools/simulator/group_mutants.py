"""Named mistakes of groups and of requests (see mutants.py)."""

from __future__ import annotations

from typing import Any

from overlay.data.client import Client
from overlay.data.routes import Fan
from overlay.journal.cursor import Cursor
from overlay.journal.group_homes import CLAIMED, GroupHomes
from overlay.journal.groups import Group, Groups, Member
from overlay.journal.last_values import LastValues, View
from overlay.journal.readers import Place
from overlay.journal.streams import Streams

Replacement = tuple[Any, str, Any]


def ack_of_anybody() -> list[Replacement]:
    """Who holds a message does not matter: two may be told that theirs counts."""

    def lax(self: Groups, group: Group, member: Member, cursor: Cursor, offset: int) -> None:
        group.drop(offset)
        cursor.acknowledge(offset)
        member.acknowledged.append(offset)

    return [(Groups, "_acknowledge", lax)]


def cursor_not_kept() -> list[Replacement]:
    """Acknowledgements are told to count, and are in memory only."""
    return [(Streams, "_cursors", lambda self: iter(()))]


def claim_not_told() -> list[Replacement]:
    report = GroupHomes._report

    def silent(self: GroupHomes, argument: bytes) -> Any:
        said = report(self, argument)
        return {**said, "state": ""} if said.get("state") == CLAIMED else said

    return [(GroupHomes, "_report", silent)]


def made_while_somebody_is_missing() -> list[Replacement]:
    heard = GroupHomes._heard

    def deaf(self: GroupHomes, name: str, reports: list[Any], now: float) -> None:
        self.known.pop(name, None)
        heard(self, name, [report for report in reports if not report.get("missing")], now)

    return [(GroupHomes, "_heard", deaf)]


def left_behind() -> list[Replacement]:
    """What was under way to a member that goes stays under way to nobody."""

    def forgetful(self: Groups, place: Place, client: Client, now: float) -> None:
        group = self.groups.get(place)
        if group is not None and (member := group.members.pop(client, None)) is not None:
            for offset in list(member.holds):
                group.drop(offset)
            if not group.members:
                self._end(place)

    return [(Groups, "_part", forgetful)]


def nobody_behind_links() -> list[Replacement]:
    """Who has subscribed at another broker is not there."""
    return [(Fan, "reaches", property(lambda self: bool(self.clients)))]


def older_value_kept() -> list[Replacement]:
    """What comes later of a key is not its last value."""
    take = View.take

    def first_only(self: View, offset: int, publication: Any) -> None:
        before = dict(self.values)
        take(self, offset, publication)
        self.values = {**self.values, **before}

    return [(View, "take", first_only)]


def waiting_reader_forgotten() -> list[Replacement]:
    """Who waits for what is new is not told of it."""
    return [(LastValues, "serve", lambda self, stream, now: None), (LastValues, "_over", lambda *_: None)]


LAST_MUTANTS = {
    "last-older-value-kept": older_value_kept,
    "last-waiting-reader-forgotten": waiting_reader_forgotten,
}
GROUP_MUTANTS = {
    "group-ack-of-anybody": ack_of_anybody,
    "group-cursor-not-kept": cursor_not_kept,
    "group-claim-not-told": claim_not_told,
    "group-made-while-somebody-is-missing": made_while_somebody_is_missing,
    "group-left-behind": left_behind,
    "nobody-behind-links": nobody_behind_links,
}
