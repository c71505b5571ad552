"""The filter language: text to normal form and back, and what a normal form means.

Client, broker and Spark jobs read filters with this one package and report the same errors.
"""

from __future__ import annotations

from grapevine.errors import FilterError
from grapevine.filters.evaluate import matches
from grapevine.filters.language import parse
from grapevine.filters.normal import EVERYTHING, NOTHING, Filter, Op, Predicate, Value

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Filter",
    "FilterError",
    "Op",
    "Predicate",
    "Value",
    "matches",
    "parse",
]
