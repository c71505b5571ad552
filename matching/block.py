"""Rows as slots of bit vectors: a match is a few ORs of rows of bits, whatever the filters ask.

* Each attribute has its `Segments`; the rows a publication falls in, ORed, leave the candidates as zeros.
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
from matching.listing import zeros
from matching.profile import Profile
from matching.row import Split
from matching.segments import Segments
from matching.slots import SHARED
from matching.slotted import Slotted

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_PATIENCE = 4096  # staged slots that matches look at before they are placed


class Block(Slotted):
    def _fallen(self, attributes: Attributes) -> tuple[list[bitarray], list[float]]:
        """(the rows of bits a publication falls in, its numbers as the cells want them)"""
        get = attributes.get
        rows = [self._dead]
        point: list[float] = []
        for table in self.tables:
            value = get(table.attribute)
            if type(value) is float:
                rows.append(table.out[3 + bisect_right(table.cuts, value)])
                point += (value, -value)
            else:
                rows.append(table.out[table.row(value)])
                point += _pair(table, value)
        return rows, point

    def _hits(self, attributes: Attributes) -> Ints:
        """The slots that match."""
        rows, point = self._fallen(attributes)
        if kernel.module is None:
            hits = self._below(zeros(_union(rows)), point)
        else:
            hits = np.frombuffer(kernel.module.slots(rows, self._cells, point), np.int64)
        if self._odds:
            hits = self._without_odd(hits, attributes)
        return np.concatenate((hits, self._waiting(attributes))) if self._staged else hits

    def _below(self, slots: Ints, point: list[float]) -> Ints:
        """Those of the slots whose cells are at or below the point."""
        return slots[self._are_below(slots, point)]

    def _are_below(self, slots: Ints, point: list[float]) -> Bools:
        """Several comparisons are read as one word, which is quicker than to reduce them."""
        if not point:
            return np.ones(len(slots), np.bool_)
        below: Bools = (self._cells.take(slots, 0) <= np.array(point)).view(self._word) == self._true
        return below[:, 0] if below.shape[1] == 1 else np.logical_and.reduce(below, axis=1)

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
        found = self._below(np.array(plain, np.int64), point)
        if vague:
            passed = [slot for slot in vague if satisfied(self.predicates(slot), attributes)]
            found = np.concatenate((found, np.array(passed, np.int64)))
        self._seen += len(staged)
        if self._seen > _PATIENCE:
            self.place()
        return found

    def sids(self, attributes: Attributes) -> list[int]:
        if kernel.module is None or self._odds or self._staged:
            return self._sids.take(self._hits(attributes)).tolist()  # type: ignore[no-any-return]
        rows, point = self._fallen(attributes)
        found: list[int] = kernel.module.sids(rows, self._cells, point, self._sids)
        return found

    def anchors(self, attributes: Attributes, found: set[int]) -> None:
        rows, point = self._fallen(attributes)
        if kernel.module is not None and not self._odds:
            found.update(kernel.module.groups(rows, self._cells, point, self._groups))
        else:
            out = _union(rows)
            unsure = self._unsure(attributes)
            unsure |= out
            self._sure_anchors(unsure, found)
            unsure ^= out
            group_of = memoryview(self._groups)  # type: ignore[arg-type]
            slots = np.array([s for s in unsure.search(1) if group_of[s] not in found], np.int64)
            passed = self._without_odd(self._below(slots, point), attributes)
            found.update(self._groups[passed].tolist())
        if self._staged:
            found.update(self._groups[self._waiting(attributes)].tolist())

    def _unsure(self, attributes: Attributes) -> bitarray:
        """Ones: the slots that a value of the same segments need not satisfy."""
        unsure = self._odd.copy()
        for table in self.tables:
            row = table.row(attributes.get(table.attribute))
            unsure |= table.out[row - 1]
            unsure |= table.out[row + 1]
        return unsure

    def _sure_anchors(self, sure: bitarray, found: set[int]) -> None:
        """Zeros are matches: a byte with one is its owner's, and the bits of a shared byte their rows'."""
        used: Ints = (_octets(sure) != 255).nonzero()[0]
        if not len(used):
            return
        owners = self._slots.owners[used]
        hit = np.bincount(owners).nonzero()[0].tolist()
        if hit[0] == SHARED:
            del hit[0]
            self._shared_anchors(used[owners == SHARED], sure, found)
        found.update(map(self._slots.group, hit))

    def _shared_anchors(self, used: Ints, sure: bitarray, found: set[int]) -> None:
        bits = np.unpackbits(_octets(sure)[used], bitorder="little")
        zeros = (bits == 0).nonzero()[0]
        found.update(self._groups[used[zeros >> 3] * 8 + (zeros & 7)].tolist())

    def labels(self, attributes: Attributes) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint32]]:
        hits = self._hits(attributes)
        return self._groups[hits], self._labels[hits]

    # Questions about filters

    def covering(self, profile: Profile) -> Split:
        """Both ends of an interval must not be out."""
        out = self._dead.copy()
        for table in self.tables:
            ends: list[Value | None] = []
            if table.attribute in profile.numbers:
                ends.extend(profile.numbers[table.attribute])
            elif table.attribute in profile.texts:
                ends.append(profile.texts[table.attribute])
            elif table.attribute not in profile.attributes:
                ends.append(None)
            for end in ends:
                out |= table.out[table.row(end)]
        slots = self._with_staged(out)
        point = [bound for table in self.tables for bound in profile.least(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def covered(self, profile: Profile) -> Split:
        """What lies just beyond an interval's ends must not be in; vague rows always may be covered."""
        inside = ~self._dead
        bounds: list[tuple[int, float]] = []
        for attribute, (low, high) in profile.numbers.items():
            table = self._table.get(attribute)
            if table is None or attribute == self._key_attribute:
                continue
            bounds += [(2 * table.index, low), (2 * table.index + 1, -high)]
            inside &= table.out[0]
            for beyond in (nextafter(low, -inf), nextafter(high, inf)):
                if abs(beyond) != inf:
                    row = table.row(beyond)
                    inside &= table.out[row - 1] | table.out[row] | table.out[row + 1]
        slots = self._with_staged(~inside)
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
        slots = self._with_staged(self._dead)
        point = [bound for table in self.tables for bound in profile.crossed(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def _with_staged(self, out: bitarray) -> Ints:
        """The zeros, and the slots that have no bits yet."""
        return np.concatenate((zeros(out), np.array(list(self._staged), np.int64)))

    def _may(self, slots: Ints, point: list[float]) -> Ints:
        """Those below the point, and those of which the cells do not say enough."""
        vague = np.unpackbits(_octets(self._vague), bitorder="little").view(np.bool_)
        return slots[self._are_below(slots, point) | vague[slots]]

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
        left = _union(self._fallen(attributes)[0]).count(0) + len(self._staged)
        return left, left

    def bytes(self) -> int:
        arrays = self._cells.nbytes + self._labels.nbytes + self._groups.nbytes + self._slots.owners.nbytes
        lists = 16 * self.capacity + 3 * self.capacity // 8
        return arrays + lists + sum(table.nbytes for table in self.tables)


def _pair(table: Segments, value: Value | None) -> tuple[float, float]:
    """A value as the cells of a table want it."""
    if type(value) is str:
        code = table.codes.of.get(value, -1.0)
        return code, -code
    return number_pair(value)


def _union(rows: list[bitarray]) -> bitarray:
    union = rows[0].copy()
    for row in rows[1:]:
        union |= row
    return union


def _octets(bits: bitarray) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bits, np.uint8)  # type: ignore[call-overload, no-any-return]
