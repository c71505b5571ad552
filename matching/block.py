"""Rows as slots of bit vectors: a match is a few ANDs of rows of bits, whatever the filters ask.

* Each attribute has its `Segments`; the rows a publication falls in, ANDed, leave the candidates.
  Their cells are compared all at once, which costs less than to tell the sure ones from the others.
* "Which groups" lists nothing: slots that match for sure (see `segments`) are seen as bytes that have an
  owner, and only candidates of groups not found by then are compared.
* Questions about filters are decided by bits and cells, unless a slot is vague.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf, nextafter

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from grapevine.filters.normal import Value
from matching import kernel
from matching.bounds import number_pair
from matching.check import satisfied
from matching.interface import Attributes
from matching.listing import ones
from matching.profile import Profile
from matching.row import Split
from matching.slots import SHARED
from matching.slotted import Slotted

Ints = npt.NDArray[np.int64]

_PATIENCE = 4096  # staged slots that matches look at before they are placed


class Block(Slotted):
    def _left(self, attributes: Attributes) -> bitarray:
        """The slots that the bits leave; `_point` has the publication's numbers as the cells want them."""
        get, point = attributes.get, self._at
        left = self._placed.copy()
        for attribute, cuts, numbers, fall, low, high in self._plan:
            value = get(attribute)
            if type(value) is float:
                left &= numbers[bisect_right(cuts, value)]
                point[low] = value
                point[high] = -value
            else:
                row, point[low], point[high] = fall(value)
                left &= row
        return left

    def _hits(self, attributes: Attributes) -> Ints:
        """The slots that match."""
        if kernel.module is None:
            hits = self._below(ones(self._left(attributes)), self._point.tobytes())
        else:
            rows, point = kernel.module.fallen(self._placed, self._plan, attributes)
            hits = np.frombuffer(kernel.module.slots(rows, self._cells, point), np.int64)
        if self._odds:
            hits = self._without_odd(hits, attributes)
        return np.concatenate((hits, self._waiting(attributes))) if self._staged else hits

    def _below(self, slots: Ints, point: bytes) -> Ints:
        """Those of the slots whose cells are at or below the point."""
        return slots[self._scratch.below(self._cells, slots, point)]

    def _without_odd(self, slots: Ints, attributes: Attributes) -> Ints:
        """Without the odd ones that do not match after all."""
        odd = self._odd
        kept = [s for s in slots.tolist() if not odd[s] or satisfied(self.predicates(s), attributes)]
        return np.array(kept, np.int64)

    def _waiting(self, attributes: Attributes) -> Ints:
        """The staged slots that match. No bits have told types apart, so texts are no numbers' equals here.

        When matches have looked at them as often as is worth placing them, they are placed.
        """
        staged = list(self._staged)
        point = [bound for table in self.tables for bound in number_pair(attributes.get(table.attribute))]
        vague = [slot for slot in staged if self._vague[slot]] if self._vagues else []
        plain = sorted(self._staged.keys() - vague) if vague else staged
        found = self._below(np.array(plain, np.int64), self._cell.pack(*point))
        if vague:
            passed = [slot for slot in vague if satisfied(self.predicates(slot), attributes)]
            found = np.concatenate((found, np.array(passed, np.int64)))
        self._seen += len(staged)
        if self._seen > _PATIENCE:
            self.place()
        return found

    def sids(self, attributes: Attributes) -> list[int]:
        found: list[int]
        if self._odds or self._staged:
            found = self._sids[self._hits(attributes)].tolist()
        elif kernel.module is None:
            found = self._find(attributes)
        else:
            rows, point = kernel.module.fallen(self._placed, self._plan, attributes)
            found = kernel.module.sids(rows, self._cells, point, self._sids)
        return found

    def anchors(self, attributes: Attributes, found: set[int]) -> None:
        if kernel.module is not None and not self._odds:
            rows, point = kernel.module.fallen(self._placed, self._plan, attributes)
            found.update(kernel.module.groups(rows, self._cells, point, self._groups))
        else:
            left = self._left(attributes)
            sure = self._sure(attributes)
            sure &= left
            self._sure_anchors(sure, found)
            left ^= sure
            group_of = memoryview(self._groups)  # type: ignore[arg-type]
            slots = np.array([s for s in left.search(1) if group_of[s] not in found], np.int64)
            passed = self._without_odd(self._below(slots, self._point.tobytes()), attributes)
            found.update(self._groups[passed].tolist())
        if self._staged:
            found.update(self._groups[self._waiting(attributes)].tolist())

    def _sure(self, attributes: Attributes) -> bitarray:
        """The slots that every value of the segments beside the publication's satisfies."""
        sure = ~self._odd
        for table in self.tables:
            row = table.row(attributes.get(table.attribute))
            sure &= table.some[row - 1]
            sure &= table.some[row + 1]
        return sure

    def _sure_anchors(self, sure: bitarray, found: set[int]) -> None:
        """A byte that is not empty is a match of its owner, and the bits of a shared byte of their rows'."""
        used: Ints = _octets(sure).nonzero()[0]
        if not len(used):
            return
        owners = self._slots.owners[used]
        hit = np.bincount(owners).nonzero()[0].tolist()
        if hit[0] == SHARED:
            del hit[0]
            self._shared_anchors(used[owners == SHARED], sure, found)
        found.update(map(self._slots.group, hit))

    def _shared_anchors(self, used: Ints, sure: bitarray, found: set[int]) -> None:
        bits = np.unpackbits(_octets(sure)[used], bitorder="little").nonzero()[0]
        found.update(self._groups[used[bits >> 3] * 8 + (bits & 7)].tolist())

    def labels(self, attributes: Attributes) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint32]]:
        hits = self._hits(attributes)
        return self._groups[hits], self._labels[hits]

    # Questions about filters

    def covering(self, profile: Profile) -> Split:
        """Both ends of an interval must be in."""
        left = self._placed.copy()
        for table in self.tables:
            ends: list[Value | None] = []
            if table.attribute in profile.numbers:
                ends.extend(profile.numbers[table.attribute])
            elif table.attribute in profile.texts:
                ends.append(profile.texts[table.attribute])
            elif table.attribute not in profile.attributes:
                ends.append(None)
            for end in ends:
                left &= table.some[table.row(end)]
        slots = self._with_staged(left)
        point = [bound for table in self.tables for bound in profile.least(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def covered(self, profile: Profile) -> Split:
        """What lies just beyond an interval's ends must not be in; vague rows always may be covered."""
        left = self._placed.copy()
        bounds: list[tuple[int, float]] = []
        for attribute, (low, high) in profile.numbers.items():
            table = self._table.get(attribute)
            if table is None or attribute == self._key_attribute:
                continue
            bounds += [(2 * table.index, low), (2 * table.index + 1, -high)]
            left &= ~table.some[0]
            for beyond in (nextafter(low, -inf), nextafter(high, inf)):
                if abs(beyond) != inf:
                    row = table.row(beyond)
                    left &= ~(table.some[row - 1] & table.some[row] & table.some[row + 1])
        slots = self._with_staged(left)
        for column, bound in bounds:
            slots = slots[self._cells[slots, column] >= bound]
        vague = self._vague.search(1)
        return self._split(
            profile, np.array(sorted({*slots.tolist(), *vague}), np.int64), self._missing(profile)
        )

    def _missing(self, profile: Profile) -> bool:
        """Whether the profile asks for an attribute that has no cells here: no plain row is narrower then."""
        names = [*profile.numbers, *profile.texts]
        return any(name != self._key_attribute and name not in self._table for name in names) or any(
            name != self._key_attribute for name in profile.texts
        )

    def overlapping(self, profile: Profile) -> Split:
        slots = self._with_staged(self._placed)
        point = [bound for table in self.tables for bound in profile.crossed(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def _with_staged(self, left: bitarray) -> Ints:
        """The ones, and the slots that have no bits yet."""
        return np.concatenate((ones(left), np.array(list(self._staged), np.int64)))

    def _may(self, slots: Ints, point: list[float]) -> Ints:
        """Those below the point, and those of which the cells do not say enough."""
        vague = np.unpackbits(_octets(self._vague), bitorder="little").view(np.bool_)
        below = self._scratch.below(self._cells, slots, self._cell.pack(*point))
        return slots[below | vague[slots]]

    def _split(self, profile: Profile, slots: Ints, none_plain: bool = False) -> Split:
        """Decided by the cells, unless a row is vague or the profile is not exact."""
        rows = [(slot, row) for slot in slots.tolist() if (row := self._rows[slot]) is not None]
        if not profile.exact:
            return [], [row for _, row in rows]
        vague = self._vague
        plain = [] if none_plain else [row for slot, row in rows if not vague[slot]]
        return plain, [row for slot, row in rows if vague[slot]]

    # For people

    def explain(self, attributes: Attributes) -> tuple[int, int]:
        """(rows left by the bits, rows whose cells are compared)"""
        left = self._left(attributes).count() + len(self._staged)
        return left, left

    def bytes(self) -> int:
        arrays = self._cells.nbytes + self._labels.nbytes + self._groups.nbytes + self._slots.owners.nbytes
        lists = 16 * self.capacity + (3 + len(self._kept)) * self.capacity // 8
        return arrays + lists + sum(table.nbytes for table in self.tables)


def _octets(bits: bitarray) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bits, np.uint8)  # type: ignore[call-overload, no-any-return]
