"""The rows of one equality as columns of numbers: one comparison of a matrix with a vector finds the matches.

* A column is one side of one attribute: a lower bound as it is, an upper bound negated, so that a row
  matches when every cell is at or below the publication's (see `bounds`). No bound is -inf.
* Texts and booleans that must be equal are numbered per store (`codes`) and are then bounds as well.
* What no column can say stays with the row as `extra` predicates, checked for the rows that pass.
* Rows lie sorted by group when `settle` has run; until then `labels` comes unsorted, which its caller sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

import numpy as np
import numpy.typing as npt

from grapevine.filters.normal import Op, Predicate, Value
from matching import kernel
from matching.bounds import number_bounds, number_pair
from matching.check import satisfied
from matching.cutting import LABEL, cut, distinct
from matching.interface import Attributes
from matching.profile import Profile
from matching.row import Row, Split

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]
Codes = dict[Value, int]
Pair = tuple[float, float]
_UNKNOWN = -1
_EQ = int(Op.EQ)  # an enum's member costs more than the comparison


class Columns:
    narrow = True
    pending = False
    cut, distinct = staticmethod(cut), staticmethod(distinct)

    def __init__(self, key_attribute: str | None) -> None:
        self._key_attribute = key_attribute  # settled by the key, hence in no column
        self._left = False  # row by row, for blocks
        self._lay([])

    def _lay(self, rows: list[Row]) -> None:
        self._plan: list[tuple[str, Codes | None, int]] = []  # column -> attribute, its codes if text, side
        self._column: dict[tuple[str, bool, int], int] = {}
        self._codes: dict[str, Codes] = {}
        self._rows: list[Row] = []
        self._extra: dict[int, tuple[Predicate, ...]] = {}  # by slot
        self._cells = np.full((8, 32), -inf)
        self._seen: Floats | None = None  # the cells in use, when a match has asked for them
        self._groups = np.zeros(32, np.int64)
        self._labels = np.zeros(32, LABEL)
        self._sids = np.zeros(32, np.int64)
        self.sorted = False  # by group; then `starts` has the first slot of each, `names` the groups
        self._starts = self._names = np.zeros(0, np.int64)
        self._idle = 0  # matches since the last change
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def add(self, row: Row) -> None:
        slot = row.slot = len(self._rows)
        self._rows.append(row)
        if slot == self._cells.shape[1]:
            self._resize(len(self._plan), slot + max(32, slot // 2))
        self._cells[:, slot] = -inf
        for predicate in row.rest:
            self._constrain(slot, predicate)
        self._groups[slot] = row.group
        self._labels[slot] = row.label
        self._sids[slot] = row.sid
        self._changed()

    def remove(self, row: Row) -> None:
        slot, last = row.slot, len(self._rows) - 1
        assert self._rows[slot] is row, f"row of subscription {row.sid} is not where it was put"
        moved = self._rows.pop()
        self._extra.pop(slot, None)
        if slot != last:
            self._rows[slot] = moved
            moved.slot = slot
            self._cells[:, slot] = self._cells[:, last]
            for array in (self._groups, self._labels, self._sids):
                array[slot] = array[last]
            if last in self._extra:
                self._extra[slot] = self._extra.pop(last)
        self._changed()
        if self._left:
            return
        coded = sum(map(len, self._codes.values()))
        if (last * 4 < self._cells.shape[1] and last > 32) or coded > 64 + 4 * last:
            self._lay(self._rows)  # also drops columns and codes that nobody uses any more

    def last(self, count: int) -> list[Row]:
        """Some rows from the end. Who asks takes them all in time: laying the rest anew would be in vain."""
        self._left = True
        return self._rows[-count:]

    def work(self, budget: int) -> bool:
        return False

    def _changed(self) -> None:
        self.sorted = False
        self._idle = 0
        self._seen = None

    def _live(self) -> Floats:
        if self._seen is None:
            self._seen = self._cells[: len(self._plan), : len(self._rows)]
        return self._seen

    def _constrain(self, slot: int, predicate: Predicate) -> None:
        bounds = number_bounds(predicate)
        if bounds is not None:
            self._bound(slot, predicate.attribute, None, bounds)
        elif predicate.op == _EQ and (type(operand := predicate.operand) is str or type(operand) is bool):
            codes = self._codes.setdefault(predicate.attribute, {})
            code = codes.setdefault(operand, len(codes))
            self._bound(slot, predicate.attribute, codes, (code, code))
        else:
            self._extra[slot] = (*self._extra.get(slot, ()), predicate)

    def _bound(self, slot: int, attribute: str, codes: Codes | None, bounds: tuple[float, float]) -> None:
        for side, bound in enumerate((bounds[0], -bounds[1])):
            if bound == -inf:
                continue
            column = self._column.get((attribute, codes is None, side))
            if column is None:
                column = self._column[attribute, codes is None, side] = len(self._plan)
                self._plan.append((attribute, codes, side))
                if column == self._cells.shape[0]:
                    self._resize(column + 8, self._cells.shape[1])
            if bound > self._cells[column, slot]:
                self._cells[column, slot] = bound

    def _resize(self, columns: int, slots: int) -> None:
        used, rows = min(len(self._plan), self._cells.shape[0]), len(self._rows)
        cells = np.full((max(columns, 8), slots), -inf)
        width = min(rows, slots, self._cells.shape[1])
        cells[:used, :width] = self._cells[:used, :width]
        self._cells = cells
        for name in ("_groups", "_labels", "_sids"):
            old = getattr(self, name)
            new = np.zeros(slots, old.dtype)
            new[:width] = old[:width]
            setattr(self, name, new)

    def _settle(self) -> None:
        """Sort once the rows have rested for as many matches as sorting would cost."""
        self._idle += 1
        if self._idle * 32 > len(self._rows):
            self._sort()

    def _sort(self) -> None:
        count = len(self._rows)
        order = np.lexsort((self._labels[:count], self._groups[:count]))
        self._live()[:] = self._live()[:, order]
        for array in (self._groups, self._labels, self._sids):
            array[:count] = array[:count][order]
        former = order.tolist()
        self._rows = [self._rows[slot] for slot in former]
        for slot, row in enumerate(self._rows):
            row.slot = slot
        if self._extra:
            self._extra = {
                row.slot: self._extra[old] for row, old in zip(self._rows, former) if old in self._extra
            }
        groups = self._groups[:count]
        self._starts = np.concatenate(([0], (groups[1:] != groups[:-1]).nonzero()[0] + 1))
        self._names = groups[self._starts]
        self.sorted = True

    def _point(self, attributes: Attributes) -> list[float]:
        """The publication as the columns see it."""
        get = attributes.get
        point: list[float] = []
        for attribute, codes, side in self._plan:
            value = get(attribute)
            if type(value) is float and codes is None:
                point.append(-value if side else value)
            elif codes is None:
                point.append(number_pair(value)[side])
            elif value is None:
                point.append(-inf)
            else:
                point.append(_code_pair(codes, value)[side])
        return point

    def _hits(self, attributes: Attributes) -> Ints:
        point = self._point(attributes)
        if kernel.module is None:
            hits: Ints = self._below(point).nonzero()[0]
        else:
            found = kernel.module.below(self._cells, self._cells.shape[1], len(self._rows), point)
            hits = np.frombuffer(found, np.int64)
        if self._extra:
            keep = [slot for slot in hits.tolist() if self._passes(slot, attributes)]
            return np.array(keep, np.int64)
        return hits

    def _below(self, point: list[float]) -> Bools:
        """Which rows have every cell at or below the point's."""
        if not point:
            return np.ones(len(self._rows), np.bool_)
        below: Bools = np.logical_and.reduce(self._live() <= np.array(point)[:, None])
        return below

    def _passes(self, slot: int, attributes: Attributes) -> bool:
        extra = self._extra.get(slot)
        return extra is None or satisfied(extra, attributes)

    def sids(self, attributes: Attributes) -> list[int]:
        return self._sids[self._hits(attributes)].tolist()  # type: ignore[no-any-return]

    def anchors(self, attributes: Attributes, found: set[int]) -> None:
        if not self.sorted:
            self._settle()
        if self.sorted and not self._extra:
            hit = np.logical_or.reduceat(self._below(self._point(attributes)), self._starts)
            found.update(self._names[hit].tolist())
        else:
            found.update(self._groups[self._hits(attributes)].tolist())

    def labels(self, attributes: Attributes) -> tuple[Ints, Labels]:
        """Groups and labels of the matches, sorted by group if `sorted`."""
        if not self.sorted:
            self._settle()
        hits = self._hits(attributes)
        return self._groups[hits], self._labels[hits]

    def covering(self, profile: Profile) -> Split:
        return self._split(profile, self._below(self._vector(profile, profile.least, False)))

    def overlapping(self, profile: Profile) -> Split:
        return self._split(profile, self._below(self._vector(profile, profile.crossed, True)))

    def covered(self, profile: Profile) -> Split:
        """Rows at least as narrow in every attribute that `profile` knows; extras may make them so."""
        mask = np.ones(len(self._rows), np.bool_)
        for attribute, (low, high) in profile.numbers.items():
            if attribute != self._key_attribute:
                self._narrow(mask, (attribute, True), (low, -high))
        for attribute, value in profile.texts.items():
            if attribute == self._key_attribute:
                continue
            code = self._codes.get(attribute, {}).get(value, _UNKNOWN)
            self._narrow(mask, (attribute, False), (code, -code) if code != _UNKNOWN else (inf, inf))
        mask[list(self._extra)] = True
        return self._split(profile, mask)

    def _narrow(self, mask: Bools, name: tuple[str, bool], bounds: Pair) -> None:
        for side, bound in enumerate(bounds):
            column = self._column.get((*name, side))
            if bound == -inf:
                continue
            if column is None:
                mask[:] = False
            else:
                mask &= self._live()[column] >= bound

    def _vector(self, profile: Profile, numbers: Callable[[str], Pair], crossed: bool) -> list[float]:
        point: list[float] = []
        for attribute, codes, side in self._plan:
            if codes is None:
                point.append(numbers(attribute)[side])
            elif attribute in profile.texts:
                point.append(_code_pair(codes, profile.texts[attribute])[side])
            elif attribute in profile.numbers:
                point.append(-inf)
            else:
                point.append(inf if crossed or attribute in profile.attributes else -inf)
        return point

    def _split(self, profile: Profile, mask: Bools) -> Split:
        rows = [self._rows[slot] for slot in mask.nonzero()[0].tolist()]
        if profile.exact and not self._extra:
            return rows, []
        if not profile.exact:
            return [], rows
        odd = [row for row in rows if row.slot in self._extra]
        return [row for row in rows if row.slot not in self._extra], odd

    def explain(self, attributes: Attributes) -> tuple[int, int]:
        """(rows compared, rows checked one by one)"""
        extra, self._extra = self._extra, {}
        passed = self._hits(attributes).tolist()
        self._extra = extra
        return len(self._rows), sum(slot in extra for slot in passed)

    def bytes(self) -> int:
        arrays = (self._cells, self._groups, self._labels, self._sids)
        return sum(array.nbytes for array in arrays) + 8 * len(self._rows)


def _code_pair(codes: Codes, value: Value) -> Pair:
    if type(value) is not str and type(value) is not bool:
        return -inf, -inf
    code = codes.get(value, _UNKNOWN)
    return code, -code
