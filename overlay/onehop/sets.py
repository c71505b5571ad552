"""A matcher's copies of subscriptions: one set and one index for each dimension (BlueDove III-A).

* A copy is in the set of a dimension if it meets one of this matcher's segments there, or one that it is
  about to take. The matcher's own segments decide, whoever sent the copy.
* Copies are soft state: their home is the source. A home registers: it places all that meets the segments and
  says Filled, under a registration number that it never gives twice. What it had placed before and did not
  place again is dropped then. Until the next registration is complete the last one stands.
* A home is *complete* once it has filled the segments as they are now. Answers name the complete homes and
  their registrations; whether that is enough is the asker's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from grapevine.filters.normal import Filter
from grapevine.wire.onehop import HomeMatches, Placement, Registered, Segments, Span
from matching.interface import Attributes, Matcher
from overlay.onehop.packed import pack_clients
from overlay.onehop.segments import touches
from overlay.onehop.values import ranges_of


class Copy:
    __slots__ = ("client", "filter", "group", "label", "mask", "round", "sid", "spare")

    def __init__(self, sid: int, group: int, placement: Placement) -> None:
        self.sid, self.group = sid, group
        self.client, self.label, self.filter = placement.client, placement.label, placement.filter
        self.mask = 0  # dimensions in whose sets it is
        self.round = 0  # of its home: when it was last placed
        self.spare = False  # it stays where it meets no segment


class Home:
    """A dispatcher as a matcher knows it."""

    __slots__ = ("copies", "filled", "id", "incarnation", "registration", "round")

    def __init__(self, home: int, incarnation: int) -> None:
        self.id, self.incarnation = home, incarnation
        self.copies: dict[int, Copy] = {}  # by serial
        self.registration = 0  # the last one that is complete; 0: none
        self.filled = 0  # number of the last Fill that it has answered
        self.round = 1  # raised when its link comes up: what is not placed again is stale


class Sets:
    def __init__(self, dimensions: Sequence[str], make: Callable[[], Matcher]) -> None:
        self.dimensions = tuple(dimensions)
        self.indexes: list[Matcher] = [make() for _ in dimensions]
        self.homes: dict[int, Home] = {}
        self.segments: Segments = tuple(() for _ in dimensions)  # own, and about to be taken
        self._groups: dict[tuple[int, int], int] = {}
        self._members: list[tuple[int, int]] = []  # (home, client) of each group
        self._sizes: list[int] = []  # copies of each group
        self._free: list[int] = []
        self._sids = 0
        self.spares = 0  # copies

    # --- homes ---------------------------------------------------------------------------------------

    def link_up(self, home: int, incarnation: int) -> Home:
        """A home's link is up: what it places from now on is its next round."""
        known = self.homes.get(home)
        if known is not None and known.incarnation != incarnation:
            self.forget(home)
            known = None
        if known is None:
            known = self.homes[home] = Home(home, incarnation)
        known.round += 1
        return known

    def forget(self, home: int) -> None:
        if (known := self.homes.pop(home, None)) is not None:
            for serial in list(known.copies):
                self._drop(known, serial)

    def filled(self, home: int, number: int, registration: int) -> None:
        known = self.homes[home]
        if registration != known.registration:
            for serial, copy in list(known.copies.items()):
                if copy.round != known.round:
                    self._drop(known, serial)
            known.registration = registration
        known.filled = max(known.filled, number)

    def registered(self, number: int) -> tuple[Registered, ...]:
        """The homes that are complete for the segments of Fill `number`."""
        return tuple(
            Registered(home.id, home.registration)
            for home in self.homes.values()
            if home.registration and home.filled >= number
        )

    # --- copies --------------------------------------------------------------------------------------

    def place(self, home: int, placement: Placement) -> None:
        known = self.homes[home]
        copy = known.copies.get(placement.serial)
        if copy is None:
            self._sids += 1
            group = self._group(home, placement.client)
            copy = known.copies[placement.serial] = Copy(self._sids, group, placement)
            self._sizes[group] += 1
        self.spares += placement.spare - copy.spare
        copy.round, copy.spare = known.round, placement.spare
        self._put(copy, self._mask(copy.filter))

    def remove(self, home: int, serial: int) -> None:
        if (known := self.homes.get(home)) is not None and serial in known.copies:
            self._drop(known, serial)

    def set_segments(self, segments: Segments) -> None:
        self.segments = segments

    def trim(self, home: int, serials: Iterable[int]) -> None:
        """Take these copies out of the sets that they no longer meet; out of all, if they meet none."""
        if (known := self.homes.get(home)) is None:
            return
        for serial in serials:
            if (copy := known.copies.get(serial)) is not None:
                mask = self._mask(copy.filter)
                self._put(copy, mask)
                if not mask and not copy.spare:
                    self._drop(known, serial)

    def _mask(self, filter: Filter) -> int:
        mask = 0
        for place, (name, spans) in enumerate(zip(self.dimensions, self.segments)):
            if spans and (spans == (Span(),) or touches(spans, ranges_of(filter, name))):
                mask |= 1 << place
        return mask

    def _put(self, copy: Copy, mask: int) -> None:
        changed = copy.mask ^ mask
        for place, index in enumerate(self.indexes):
            if changed >> place & 1:
                if mask >> place & 1:
                    index.add(copy.sid, copy.filter, copy.group, copy.label)
                else:
                    index.remove(copy.sid)
        copy.mask = mask

    def _drop(self, known: Home, serial: int) -> None:
        copy = known.copies.pop(serial)
        self._put(copy, 0)
        self.spares -= copy.spare
        self._sizes[copy.group] -= 1
        if not self._sizes[copy.group]:
            del self._groups[self._members[copy.group]]
            self._free.append(copy.group)

    def _group(self, home: int, client: int) -> int:
        group = self._groups.get((home, client))
        if group is None:
            if self._free:
                group = self._free.pop()
                self._members[group] = (home, client)
            else:
                group = len(self._members)
                self._members.append((home, client))
                self._sizes.append(0)
            self._groups[home, client] = group
        return group

    # --- questions ------------------------------------------------------------------------------------

    def match(self, dimension: int, contents: Iterable[tuple[int, Attributes]]) -> tuple[HomeMatches, ...]:
        """For (position, attributes) pairs: who matches, by home."""
        found: dict[int, tuple[list[int], list[bytes]]] = {}
        index, members = self.indexes[dimension], self._members
        for position, content in contents:
            here: dict[int, list[tuple[int, bytes]]] = {}
            for group, labels in index.deliveries(content):
                home, client = members[group]
                here.setdefault(home, []).append((client, labels))
            for home, clients in here.items():
                positions, packed = found.setdefault(home, ([], []))
                positions.append(position)
                packed.append(pack_clients(clients))
        return tuple(HomeMatches(home, self.homes[home].incarnation, *lists) for home, lists in found.items())

    def sizes(self) -> list[int]:
        return [len(index) for index in self.indexes]

    def validate(self) -> None:
        counted = [0] * len(self._members)
        held = [0] * len(self.indexes)
        spares = 0
        for home in self.homes.values():
            for copy in home.copies.values():
                counted[copy.group] += 1
                spares += copy.spare
                for place in range(len(held)):
                    held[place] += copy.mask >> place & 1
        assert counted == self._sizes, "copies of each group"
        assert held == self.sizes(), "copies of each set"
        assert spares == self.spares
