"""What checks.py says of keys that need each other and JSON Schema can say, too: by if and then.

A key that is left out has its default; so a condition on a default does not ask that the key be there. That
one number is over another, or an address the same as another, no schema can say.
"""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.settings.checks import ORDERED, UNORDERED
from daemon.settings.sections import Tree

Rule = dict[str, Any]
MEMBERS = ["dispatcher", "matcher"]  # roles of a one-hop cluster


def rules() -> list[Rule]:
    overlays = [_soft_links(), _onehop(), _dispatcher(), _unordered(), _ring()]
    return [*overlays, _back_end(), _balancing(), _copies()]


def _of(section: str, **keys: Rule) -> Rule:
    """These keys, if they are there."""
    return {"properties": {section: {"properties": keys}}}


def _given(section: str, **keys: Rule) -> Rule:
    """These keys are there, and so."""
    return {"properties": {section: {"properties": keys, "required": list(keys)}}, "required": [section]}


def _is(value: object) -> Rule:
    return {"const": value}


def _both(*some: Rule) -> Rule:
    return {"allOf": list(some)}


def _has(role: str) -> Rule:
    return _given("broker", roles={"contains": _is(role)})


def _soft_links() -> Rule:
    then, otherwise = ({"enum": list(names)} for names in (UNORDERED, ORDERED))
    return {
        "if": _given("overlay", ordered=_is(False)),
        "then": _of("softlinks", strategy=then),
        "else": _of("softlinks", strategy=otherwise),
    }


def _onehop() -> Rule:
    members = _given("broker", roles={"items": {"enum": MEMBERS}})
    return {
        "if": _given("overlay", kind=_is("onehop")),
        "then": _both(members, _given("onehop", dimensions={"minItems": 1})),
        "else": _of("broker", roles={"items": {"not": {"enum": MEMBERS}}}),
    }


def _dispatcher() -> Rule:
    alone = _both(_given("overlay", kind=_is("onehop")), {"not": _has("matcher")})
    return {"if": alone, "then": _given("onehop", seeds={"minItems": 1})}


def _unordered() -> Rule:
    by_matchers = _both(_given("overlay", kind=_is("onehop")), _given("onehop", delivery=_is("matcher")))
    return {"if": by_matchers, "then": _given("overlay", ordered=_is(False))}


def _back_end() -> Rule:
    return {"if": _has("backend"), "then": _both(_has("broker"), _of("overlay", kind=_is("tree")))}


def _balancing() -> Rule:
    return {"if": _given("balancing", mode={"not": _is("off")}), "then": _has("coordinator")}


def _ring() -> Rule:
    tree = {name: _is(value) for name, value in msgspec.json.decode(msgspec.json.encode(Tree())).items()}
    still = [
        _of("tree", **tree),
        _of("softlinks", strategy=_is("S0")),
        _of("relocation", algorithm=_is("off")),
        _of("overlay", ordered=_is(True)),
    ]
    return {
        "if": _given("overlay", kind=_is("chord")),
        "then": _both(*still),
        "else": _of("chord", members={"maxItems": 0}),
    }


def _copies() -> Rule:
    needed = [_of("overlay", kind=_is("tree")), _of("journal", enabled=_is(True))]
    return {"if": _given("journal", copies=_is(2)), "then": _both(*needed)}
