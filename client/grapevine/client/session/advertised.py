"""What the client may publish, and which of its publications must still wait.

A publication belongs to an advertisement that it matches, a confirmed one if there is one. The first
publication under an advertisement that is not confirmed *holds* itself and all later ones, since a
publisher's order is kept. A withdrawn advertisement stays until everything published before is
settled: it may have to be sent again to a broker that must find it allowed.
"""

from __future__ import annotations

from collections import deque

from grapevine.client.session.requests import Request
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter
from grapevine.filters.printing import to_text
from grapevine.wire.codec import decode_attributes

IMPLICIT = 0  # number of the advertisement of everything
REMEMBERED = 8_192  # attributes whose advertisement is known without matching


class AdvertisementState:
    __slots__ = ("confirmed", "filter", "number", "request", "usable", "used", "withdrawing", "withdrawn_at")

    def __init__(self, number: int, filter: Filter, request: Request) -> None:
        self.number = number
        self.filter = filter
        self.request = request  # the one that the application waits for
        self.confirmed = False  # in this epoch
        self.used = False
        self.usable = False  # confirmed and used: nothing to note when it is used again
        self.withdrawn_at: int | None = None  # publications appended when it was withdrawn
        self.withdrawing: Request | None = None  # waits to be asked


class Advertised:
    __slots__ = ("_holds", "by_number", "explicit", "known")

    def __init__(self) -> None:
        self.by_number: dict[int, AdvertisementState] = {}
        self.explicit = False  # the application has advertised: no more implicit advertisement
        self.known: dict[bytes, AdvertisementState] = {}  # by attributes met before, which are well-formed
        self._holds: deque[tuple[int, AdvertisementState]] = (
            deque()
        )  # (number of a publication, what it needs)

    def __str__(self) -> str:
        return " or ".join(to_text(a.filter) for a in self.by_number.values() if a.withdrawn_at is None)

    def add(self, advertisement: AdvertisementState) -> None:
        self.by_number[advertisement.number] = advertisement
        self.known.clear()

    def remove(self, advertisement: AdvertisementState) -> None:
        self.by_number.pop(advertisement.number, None)
        self.known.clear()
        self._holds = deque(hold for hold in self._holds if hold[1] is not advertisement)

    def withdraw(self, advertisement: AdvertisementState, appended: int, request: Request) -> None:
        advertisement.withdrawn_at = appended
        advertisement.withdrawing = request
        self.known.clear()

    def confirm(self, advertisement: AdvertisementState) -> None:
        advertisement.confirmed = True
        self.known.clear()

    # --- publications --------------------------------------------------------------------------------

    def find(self, attributes: bytes) -> AdvertisementState | None:
        """The advertisement that allows these attributes, which must be well-formed."""
        values = decode_attributes(attributes)
        found = None
        for advertisement in self.by_number.values():
            if advertisement.withdrawn_at is None and matches(advertisement.filter, values):
                found = advertisement
                if advertisement.confirmed:
                    break
        if found is not None:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            self.known[attributes] = found
        return found

    def allows(self, attributes: bytes) -> bool:
        """Whether any advertisement, a withdrawn one included, allows what was published under it."""
        values = decode_attributes(attributes)
        return any(matches(advertisement.filter, values) for advertisement in self.by_number.values())

    def use(self, advertisement: AdvertisementState, number: int) -> None:
        """Publication `number` belongs to this advertisement."""
        if not advertisement.confirmed and not any(a is advertisement for _, a in self._holds):
            self._holds.append((number, advertisement))
        advertisement.used = True
        advertisement.usable = advertisement.confirmed

    def held_from(self) -> int | None:
        """The first publication that may not leave yet."""
        holds = self._holds
        while holds and holds[0][1].confirmed:
            holds.popleft()
        return holds[0][0] if holds else None

    # --- breaks and ends ---------------------------------------------------------------------------

    def restart(self, settled: int) -> list[AdvertisementState]:
        """A new epoch: those that must be announced again before anything unsettled leaves."""
        for advertisement in self.by_number.values():
            advertisement.confirmed = advertisement.usable = False
        self.known.clear()
        self._holds = deque((settled + 1, a) for a in self.by_number.values() if a.used)
        return list(self.by_number.values())

    def settled(self, settled: int) -> list[AdvertisementState]:
        """Withdrawn ones that nothing unsettled needs any more."""
        return [
            a for a in self.by_number.values() if a.withdrawn_at is not None and a.withdrawn_at <= settled
        ]

    def shrink(self, sent: int, appended: int) -> None:
        """Publications after `sent` were taken out: numbers of later ones have moved down."""
        self._holds = deque((min(number, sent + 1), a) for number, a in self._holds)
        for advertisement in self.by_number.values():
            if advertisement.withdrawn_at is not None:
                advertisement.withdrawn_at = min(advertisement.withdrawn_at, appended)

    def close(self) -> None:
        """Nothing is known to be allowed any more."""
        self.known.clear()
