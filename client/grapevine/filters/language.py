"""The filter language: text to expression to normal form.

Two grammars, one result: conditions joined by and, or, not; and, where the text begins with `[`,
PADRES's list of bracketed triples, all of which must hold.

A word is a longest run of letters, digits and `_ . : / % -`. It is a number if it reads as one, a
keyword if it is one (in any case), else an attribute's name. `within`, `box` and `circle` are keywords
only before a parenthesis. Any other name stands in double quotes.

lark is imported, and its tables are built, when the first text is parsed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from grapevine.errors import FilterError
from grapevine.filters import limits
from grapevine.filters.normal import Filter
from grapevine.filters.normalise import normalise

if TYPE_CHECKING:
    from lark import Lark

    from grapevine.filters.expression import Expression

KEYWORDS = ("and", "or", "not", "between", "in", "prefix", "suffix", "contains", "exists", "true", "false")
# In any case of the letters a to z: to Python's `i` alone, `ı` and `ſ` are an i and an s too.
KEYWORD = rf"(?ai:{'|'.join(KEYWORDS)})"
WORD_CHARACTER = r"[\w.:\/%-]"
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

GRAMMAR = rf"""
?expression: conjunction (_OR conjunction)*          -> disjunction
?conjunction: negation (_AND negation)*              -> conjunction
?negation: NOT negation                              -> negation
    | condition
?condition: "(" expression ")"
    | (TRUE | FALSE)                                 -> constant
    | name COMPARE value                             -> compare
    | name BETWEEN value _AND value                  -> between
    | name _IN "(" value ("," value)* ")"            -> member
    | name (PREFIX | SUFFIX | CONTAINS) string       -> string_test
    | EXISTS name                                    -> exists
    | name                                           -> bare
    | WITHIN "(" name "," name "," shape ")"         -> within
    | shape                                          -> bare_shape
shape: BOX "(" number "," number "," number "," number ")"   -> box
    | CIRCLE "(" number "," number "," number ")"            -> circle

brackets: triple ("," triple)*                       -> conjunction
triple: "[" bracket_name "," BRACKET_OP ["," bracket_value] "]"
bracket_name: BRACKET_WORD                           -> word_name
    | QUOTED                                         -> quoted_name
bracket_value: number
    | string
    | (TRUE | FALSE)                                 -> boolean
    | BRACKET_WORD                                   -> word_string
    | QUOTED                                         -> quoted_string

name: NAME                                           -> word_name
    | QUOTED                                         -> quoted_name
?value: number
    | string
    | (TRUE | FALSE)                                 -> boolean
number: NUMBER
string: STRING

COMPARE: "=" | "!=" | "<=" | ">=" | "<" | ">"
_OR.3: /(?ai:or)(?!{WORD_CHARACTER})/
_AND.3: /(?ai:and)(?!{WORD_CHARACTER})/
NOT.3: /(?ai:not)(?!{WORD_CHARACTER})/
_IN.3: /(?ai:in)(?!{WORD_CHARACTER})/
BETWEEN.3: /(?ai:between)(?!{WORD_CHARACTER})/
PREFIX.3: /(?ai:prefix)(?!{WORD_CHARACTER})/
SUFFIX.3: /(?ai:suffix)(?!{WORD_CHARACTER})/
CONTAINS.3: /(?ai:contains)(?!{WORD_CHARACTER})/
EXISTS.3: /(?ai:exists)(?!{WORD_CHARACTER})/
TRUE.3: /(?ai:true)(?!{WORD_CHARACTER})/
FALSE.3: /(?ai:false)(?!{WORD_CHARACTER})/
WITHIN.3: /(?ai:within)(?=\s*\()/
BOX.3: /(?ai:box)(?=\s*\()/
CIRCLE.3: /(?ai:circle)(?=\s*\()/
NUMBER.2: /{NUMBER}(?!{WORD_CHARACTER})/
NAME.1: /(?!(?:{KEYWORD}|{NUMBER})(?!{WORD_CHARACTER})){WORD_CHARACTER}+/
QUOTED: /"(?:[^"]|"")*"/
STRING: /'(?:[^']|'')*'/
BRACKET_OP: /[^\s,\[\]]+/
BRACKET_WORD: /{WORD_CHARACTER}+/
%ignore /\s+/
"""


def parse(text: str) -> Filter:
    """The normal form of a filter's text; FilterError says what is wrong with it, and where."""
    try:
        return normalise(read(text))
    except FilterError as error:
        if error.text:
            raise
        # Only here is the text known to errors that were found at a node.
        raise FilterError(error.message, error.position, error.expected, text) from None


def read(text: str) -> Expression:
    """The expression that a text spells, in either form."""
    from lark.exceptions import UnexpectedInput

    from grapevine.filters.mistakes import explain

    if len(text) > limits.TEXT_CHARS:
        message = f"the text has {len(text)} characters, at most {limits.TEXT_CHARS} (TEXT_CHARS)"
        raise FilterError(message, limits.TEXT_CHARS)
    try:
        return _parse(text)
    except UnexpectedInput as mistake:
        raise explain(mistake, text) from None


def _parse(text: str) -> Expression:
    from grapevine.filters.building import check_nesting

    start = "brackets" if text.lstrip().startswith("[") else "expression"
    result: Any = _grammar().parse(text, start=start)
    expression: Expression = result
    check_nesting(expression)
    return expression


@cache
def _grammar() -> Lark:
    from lark import Lark

    from grapevine.filters.building import Builder

    return Lark(GRAMMAR, parser="lalr", start=["expression", "brackets"], transformer=Builder())
