"""The filter language: text to normal form and back, and what a normal form means.

Client, broker and Spark jobs read filters with this one package and report the same errors.
"""

from __future__ import annotations

from grapevine.errors import FilterError
from grapevine.filters.checking import check, check_attributes
from grapevine.filters.evaluate import matches
from grapevine.filters.language import parse
from grapevine.filters.normal import EVERYTHING, NOTHING, Filter, Op, Predicate, Value, identity
from grapevine.filters.printing import to_text

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Filter",
    "FilterError",
    "Op",
    "Predicate",
    "Value",
    "check",
    "check_attributes",
    "identity",
    "matches",
    "parse",
    "to_text",
]
