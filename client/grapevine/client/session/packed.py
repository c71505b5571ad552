"""Publications in bulk, their attributes packed and checked by who brings them.

For feeders: no look-up per publication. All of them belong to the one advertisement that the session has;
what lies outside it comes back from the broker as a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grapevine.client.session.outgoing import SMALL
from grapevine.client.session.state import State
from grapevine.errors import Closed, Invalid
from grapevine.wire.drafts import Draft

if TYPE_CHECKING:
    from grapevine.client.session.session import Session


def append_packed(session: Session, rows: Sequence[tuple[bytes, bytes]], sequence: int) -> int:
    """Append (attributes, payload) with sequence numbers from `sequence` on; how many the window took."""
    if session.state == State.CLOSED:
        raise Closed("the client is closed")
    if sequence < session.next_sequence:
        raise Invalid(f"sequence {sequence} does not rise: the next one is {session.next_sequence}")
    outgoing = session.outgoing
    (advertisement,) = session.advertised.by_number.values()
    taken = rows[: outgoing.bound - outgoing.appended]
    if not taken:
        return 0
    first = outgoing.appended + 1
    for number, (attributes, payload) in enumerate(taken, sequence):
        publication = Draft(attributes, payload, number)
        if len(payload) <= SMALL:
            outgoing.append(publication)
        else:
            outgoing.append_large(publication)
            if outgoing.full:
                break
    count = outgoing.appended + 1 - first
    if not advertisement.usable:
        session.advertised.use(advertisement, first)
    session.went_up_to(sequence + count - 1)
    return count
