"""Every size of a filter and of a publication's attributes, in one place.

They bound what one stranger's filter costs a broker: bits in an index, time of one match, bytes of a
table. A text beyond one of them is a FilterError that names it; a decoded form is a ValueError.
"""

from __future__ import annotations

TEXT_CHARS = 64 * 1024
NESTING = 64  # and, or and not inside each other
JOINED = 1024  # conditions of one `and` or `or`, before they are simplified
COMBINATIONS = 10_000  # conjunctions folded while a text is brought to normal form

CONJUNCTIONS = 64
PREDICATES = 64  # in one conjunction
IN_VALUES = 256
STRING_CHARS = 1024
NAME_CHARS = 128
# What `size` counts. A text of a filter is at most four times as long, hence below TEXT_CHARS: every
# normal form that is allowed can be printed and read back.
FILTER_SIZE = 16 * 1024
PREDICATE_SIZE = 32
SEARCH_SIZE = 512  # `contains` reads a whole text where others compare: a filter has about 30 of them

# Signed, so that every client language has them.
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

ATTRIBUTES = 256
ATTRIBUTE_CHARS = 4096  # of one string value
ATTRIBUTES_BYTES = 16 * 1024  # of all names and values, as encoded
