"""A conjunction seen from outside, for the questions about filters: covering, covered, overlapping.

The stores use it to leave out rows that cannot be an answer. An attribute with one exact number interval or
one exact text is known by it, any other prunes nothing. If all are known the profile is `exact`, and what
a store compares is decided; otherwise `relations` decides about what is left.
"""

from __future__ import annotations

from math import inf

from grapevine.filters.normal import Conjunction, Op, Value
from matching.bounds import number_bounds


class Profile:
    __slots__ = ("attributes", "exact", "numbers", "texts")

    def __init__(self, conjunction: Conjunction) -> None:
        self.attributes: dict[str, int] = {}
        self.numbers: dict[str, tuple[float, float]] = {}
        self.texts: dict[str, Value] = {}
        for predicate in conjunction:
            self.attributes[predicate.attribute] = self.attributes.get(predicate.attribute, 0) + 1
        for predicate in conjunction:
            if self.attributes[predicate.attribute] > 1:
                continue
            bounds = number_bounds(predicate)
            if bounds is not None:
                self.numbers[predicate.attribute] = bounds
            elif predicate.op == Op.EQ and isinstance(predicate.operand, str | bool):
                self.texts[predicate.attribute] = predicate.operand
        self.exact = len(self.numbers) + len(self.texts) == len(self.attributes)

    def least(self, attribute: str) -> tuple[float, float]:
        """What the bounds of a row must stay below so that it can cover this conjunction."""
        if attribute in self.numbers:
            low, high = self.numbers[attribute]
            return low, -high
        return (inf, inf) if self._unknown(attribute) else (-inf, -inf)

    def crossed(self, attribute: str) -> tuple[float, float]:
        """What the bounds of a row must stay below so that it can overlap this conjunction."""
        if attribute in self.numbers:
            low, high = self.numbers[attribute]
            return high, -low
        return (-inf, -inf) if attribute in self.texts else (inf, inf)

    def _unknown(self, attribute: str) -> bool:
        return attribute in self.attributes and attribute not in self.texts
