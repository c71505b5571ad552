"""A parser's complaint in the words of the language: what was found, what could have stood there."""

from __future__ import annotations

import re
from typing import Any

from lark.exceptions import UnexpectedInput, UnexpectedToken

from grapevine.errors import FilterError
from grapevine.filters.language import KEYWORDS, WORD_CHARACTER

# A string, a quoted name, a word, or one other character.
FOUND = re.compile(rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|{WORD_CHARACTER}+|[<>!]=|.""", re.DOTALL)

VALUE = "a value (a number, a 'string', true or false)"

# In this order, and a group only when all of it could have come next.
PHRASES: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset(("NAME", "QUOTED", "NOT", "EXISTS", "WITHIN", "BOX", "CIRCLE", "LPAR", "TRUE", "FALSE")),
        "a condition",
    ),
    (frozenset(("BRACKET_WORD", "QUOTED", "NUMBER", "STRING", "TRUE", "FALSE")), "a value"),
    (frozenset(("NUMBER", "STRING", "TRUE", "FALSE")), VALUE),
    (
        frozenset(("COMPARE", "BETWEEN", "_IN", "PREFIX", "SUFFIX", "CONTAINS")),
        "an operator (=, !=, <, <=, >, >=, between, in, prefix, suffix, contains)",
    ),
    (frozenset(("NAME", "QUOTED")), "an attribute name"),
    (frozenset(("BRACKET_WORD", "QUOTED")), "an attribute name"),
    (frozenset(("BOX", "CIRCLE")), "box(south, west, north, east) or circle(lat, lon, km)"),
    (frozenset(("BRACKET_OP",)), "an operator (eq, neq, <, <=, >, >=, isPresent, str-prefix, ...)"),
    (frozenset(("NUMBER",)), "a number"),
    (frozenset(("STRING",)), "a 'string'"),
    (frozenset(("_AND",)), "'and'"),
    (frozenset(("_OR",)), "'or'"),
    (frozenset(("LPAR",)), "'('"),
    (frozenset(("RPAR",)), "')'"),
    (frozenset(("LSQB",)), "'['"),
    (frozenset(("RSQB",)), "']'"),
    (frozenset(("COMMA",)), "','"),
    (frozenset(("$END",)), "the end"),
)


def explain(mistake: UnexpectedInput, text: str) -> FilterError:
    position = _position(mistake, text)
    found = FOUND.match(text, position)
    word = found.group() if found else ""
    if word in ("'", '"'):
        what = "string" if word == "'" else "quoted name"
        return FilterError(f"this {what} has no end", position, (f"a closing {word}",), text)
    expected = _expected(mistake)
    message = f"expected {_listed(expected)}, found {_shown(word)}"
    if word[:1] != "'" and VALUE in expected:
        message += _hint(word)
    return FilterError(message, position, expected, text)


def _position(mistake: UnexpectedInput, text: str) -> int:
    if isinstance(mistake, UnexpectedToken) and mistake.token.type == "$END":
        return len(text)
    position: Any = mistake.pos_in_stream
    return int(position)


def _expected(mistake: UnexpectedInput) -> tuple[str, ...]:
    parser = getattr(mistake, "interactive_parser", None)
    rest = set(parser.accepts()) if parser is not None else set()
    phrases = []
    for terminals, phrase in PHRASES:
        if terminals <= rest:
            phrases.append(phrase)
            rest -= terminals
    return (*phrases, *sorted(rest))


def _shown(word: str) -> str:
    if not word:
        return "the end"
    return word if len(word) <= 32 else word[:29] + "..."


def _hint(word: str) -> str:
    is_word = word.startswith('"') or word[:1].isalnum()
    return " (strings stand in single quotes)" if is_word and word.lower() not in KEYWORDS else ""


def _listed(phrases: tuple[str, ...]) -> str:
    if len(phrases) < 2:
        return "".join(phrases) or "something else"
    return f"{', '.join(phrases[:-1])} or {phrases[-1]}"
