"""The JSON Schemas accept every file that ships, and refuse what `config check` does where a schema can."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import ConfigError, load
from daemon.settings.keys import table
from daemon.settings.reference import default_file
from tests.unit.test_settings_reading import MISTAKES as KNOWN
from tools.pubctl.failure import Failure
from tools.pubctl.schemas import FILES, KINDS, schema, written
from tools.pubctl.topology import build

ROOT = Path(__file__).resolve().parents[2]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def wrong(value: Any, rule: dict[str, Any], whole: dict[str, Any], place: str = "") -> list[str]:
    """What this value breaks of the rule: as much of JSON Schema as our schemas use, and nothing unknown."""
    known = {"$ref", "$schema", "$defs", "title", "description", "default", "type", "properties", "required"}
    known |= {
        "additionalProperties",
        "items",
        "prefixItems",
        "anyOf",
        "enum",
        "minimum",
        "maximum",
        "pattern",
        "uniqueItems",
        "allOf",
        "if",
        "then",
        "else",
        "not",
        "const",
        "contains",
    }
    known |= {"exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"}
    assert set(rule) <= known, set(rule) - known
    if found := combined(value, rule, whole, place):
        return found
    if "anyOf" in rule and all(wrong(value, one, whole, place) for one in rule["anyOf"]):
        return [f"{place}: none of several"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{place}: not one of {rule['enum']}"]
    if "type" in rule and (
        not isinstance(value, TYPES[rule["type"]]) or (isinstance(value, bool) and rule["type"] != "boolean")
    ):
        return [f"{place}: no {rule['type']}"]
    found = []
    if isinstance(value, int | float):
        found += [f"{place}: range"] * (
            value < rule.get("minimum", value) or value > rule.get("maximum", value)
        )
        found += [f"{place}: range"] * ("exclusiveMinimum" in rule and value <= rule["exclusiveMinimum"])
        found += [f"{place}: range"] * ("exclusiveMaximum" in rule and value >= rule["exclusiveMaximum"])
    if isinstance(value, str) and "pattern" in rule:
        found += [f"{place}: pattern"] * (re.search(rule["pattern"], value) is None)
    if isinstance(value, str | list):
        least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        found += [f"{place}: length"] * (not rule.get(least, 0) <= len(value) <= rule.get(most, len(value)))
    if isinstance(value, list) and "prefixItems" in rule:
        first = zip(value, rule["prefixItems"], strict=False)
        found += [
            w for n, (one, inner) in enumerate(first) for w in wrong(one, inner, whole, f"{place}[{n}]")
        ]
    if isinstance(value, list) and rule.get("uniqueItems"):
        found += [f"{place}: twice"] * (len(set(map(str, value))) != len(value))
    if isinstance(value, list) and "items" in rule:
        found += [w for n, one in enumerate(value) for w in wrong(one, rule["items"], whole, f"{place}[{n}]")]
    if isinstance(value, dict):
        properties, others = rule.get("properties", {}), rule.get("additionalProperties", True)
        found += [f"{place}.{name}: missing" for name in rule.get("required", ()) if name not in value]
        for name, inner in value.items():
            if name in properties:
                found += wrong(inner, properties[name], whole, f"{place}.{name}")
            elif others is False:
                found.append(f"{place}.{name}: unknown")
            elif isinstance(others, dict):
                found += wrong(inner, others, whole, f"{place}.{name}")
    return found


def combined(value: Any, rule: dict[str, Any], whole: dict[str, Any], place: str) -> list[str]:
    """What it breaks of the rules that this one is put together from."""
    if "$ref" in rule and (
        found := wrong(value, whole["$defs"][rule["$ref"].rpartition("/")[2]], whole, place)
    ):
        return found
    if found := [one for part in rule.get("allOf", ()) for one in wrong(value, part, whole, place)]:
        return found
    if "if" in rule:
        branch = "else" if wrong(value, rule["if"], whole, place) else "then"
        if found := wrong(value, rule.get(branch, {}), whole, place):
            return found
    if "not" in rule and not wrong(value, rule["not"], whole, place):
        return [f"{place}: what it must not be"]
    if "const" in rule and value != rule["const"]:
        return [f"{place}: not {rule['const']}"]
    if "contains" in rule and isinstance(value, list):
        if all(wrong(one, rule["contains"], whole, place) for one in value):
            return [f"{place}: nothing of what must be in it"]
    return []


def refused(kind: str, text: str) -> list[str]:
    whole = schema(kind)
    return wrong(tomllib.loads(text), whole, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_what_ships_is_current(kind: str) -> None:
    assert FILES[kind].read_text() == written(kind), "run python -m tools.pubctl.schemas"


def test_every_shipped_configuration_is_accepted() -> None:
    text = default_file()
    assert text.startswith("#:schema ./configuration.schema.json\n")
    assert refused("configuration", text) == []
    lines = [line[1:] if re.match(r"#\w+ = ", line) else line for line in text.splitlines()]
    assert refused("configuration", "\n".join(lines)) == []


def test_every_documented_topology_is_accepted() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)]
    topologies = [block for block in blocks if "[[broker]]" in block or "generate =" in block]
    assert len(topologies) >= 2
    for block in topologies:
        assert refused("topology", block) == [], block
        build(tomllib.loads(block))


MISTAKES = r"""
[broker]\nnam = 'b1'
[broker]\nroles = ['boss']
[broker]\nroles = []
[broker]\nlisten = 'tcp://h:1'
[brokers]\nname = 'b1'
[links]\nwindow = 0
[links]\nwindow = '5'
[links]\nwindow = true
[links]\nlost_after_s = 0
[links]\nbatch_publications = 100000
[clients]\nqueue_bytes = 5
[clients]\nstall_s = -1.0
[overlay]\nkind = 'bus'
[softlinks]\nload_factor = 'much'
[relocation]\nalgorithm = 'best'
[delivery_log]\nmode = 'some'
[security]\ncurve = 'yes'
[log]\nlevel = 'loud'
"""


@pytest.mark.parametrize("text", [line.replace("\\n", "\n") for line in MISTAKES.strip().splitlines()])
def test_mistakes_that_the_check_knows(text: str, tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file, {})
    assert refused("configuration", text)


# One value compared with another: no schema can say that.
BEYOND_A_SCHEMA = (
    "is this broker's own address",
    "shorter than links.ping_s",
    "over transport.frame_bytes",
)


@pytest.mark.parametrize(("text", "said"), KNOWN[:-1])  # the last is not TOML
def test_every_mistake_that_the_check_names(text: str, said: str) -> None:
    assert bool(refused("configuration", text)) is not any(words in said for words in BEYOND_A_SCHEMA)


GOOD = r"""
[overlay]\nkind = 'onehop'\n[broker]\nroles = ['matcher']\n[onehop]\ndimensions = ['x']
[overlay]\nkind = 'onehop'\n[broker]\nroles = ['dispatcher']\n[onehop]\ndimensions = ['x']\nseeds = ['tcp://h:1']
[overlay]\nkind='onehop'\nordered=false\n[broker]\nroles=['matcher']\n[onehop]\ndimensions=['x']\ndelivery='matcher'
[overlay]\nkind = 'chord'\n[chord]\nmembers = ['tcp://h:1']\n[tree]\nneighbours = []
[overlay]\nkind = 'chord'\n[softlinks]\nstrategy = 'S0'
[overlay]\nordered = false\n[softlinks]\nstrategy = 'S2'
[softlinks]\nstrategy = 'SD'\n[relocation]\nalgorithm = 'grape'
[broker]\nroles = ['broker', 'backend', 'coordinator']\n[balancing]\nmode = 'on'
[onehop]\ndelivery = 'matcher'
[balancing]\nmode = 'off'
"""


@pytest.mark.parametrize("text", [line.replace("\\n", "\n") for line in GOOD.strip().splitlines()])
def test_what_the_check_takes_is_not_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(text)
    load(file, {})
    assert refused("configuration", text) == []


def test_every_wrong_key_and_type_of_every_section() -> None:
    for section, keys in table().items():
        for key in keys:
            assert refused("configuration", f"[{section}]\n{key}x = 1\n"), (section, key)
            assert refused("configuration", f"[{section}]\n{key} = {{ a = 1 }}\n"), (section, key)


BROKEN = r"""
prt = 5\n[[broker]]\nname = 'a'
port = 0\n[[broker]]\nname = 'a'
generate = { shape = 'star', brokers = 3, fan = 2 }
generate = { shape = 'ball' }
[[broker]]\nname = 'a'\nlog = { levl = 'debug' }
[[broker]]\nname = 'a'\nneighbour = ['b']
[[broker]]\nname = 'a'\nstart_s = -1
[[broker]]\nlisten = 'tcp://h:1'
[[broker]]\nname = 'a'\n[[client]]\nkind = 'reader'\nbroker = 'a'
[[broker]]\nname = 'a'\n[[client]]\nkind = 'publisher'\nbroker = 'a'\nattributes = { x = [1] }
[defaults.link]\nping_s = 1.0
port = 7470
"""


@pytest.mark.parametrize("text", [line.replace("\\n", "\n") for line in BROKEN.strip().splitlines()])
def test_mistakes_in_a_topology(text: str) -> None:
    with pytest.raises(Failure):
        build(tomllib.loads(text))
    assert refused("topology", text)
