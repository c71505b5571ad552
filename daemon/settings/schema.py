"""JSON Schemas of the configuration and of topology files, from the classes that read them.

An editor that knows the line `#:schema FILE` completes and checks while one types. What a schema cannot say,
that a number is over another or that no broker has a name, `config check` and `local up` say.
"""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.settings.schema_rules import rules
from daemon.settings.sections import Settings
from grapevine.wire.onehop import DIMENSIONS_MAX

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE = "configuration.schema.json"
TOPOLOGY_FILE = "topology.schema.json"
LINE = f"#:schema ./{FILE}"

_HOST = r"(?:\[[0-9a-fA-F:.%\w]+\]|[^:/\s\[\]]+)"
_PORT = r"0*(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
_PATH = r"ipc://[/@].{0,106}"
LISTENS = rf"^(?:tcp://{_HOST}:(?:\*|{_PORT})|{_PATH})$"
CONNECTS = rf"^(?:tcp://(?!\*:){_HOST}:(?!0+$){_PORT}|{_PATH})$"
# What checks.py says of one value and a schema can say, too: by section, key, and where the rule belongs.
RULES: dict[tuple[str, str], dict[str, Any]] = {
    ("Broker", "name"): {"pattern": r"^(?!\.{1,2}$)[^\s/\\]*$", "maxLength": 255},
    ("Broker", "listen"): {
        "minItems": 1,
        "uniqueItems": True,
        "items": {"type": "string", "pattern": LISTENS},
    },
    ("Broker", "location"): {
        "prefixItems": [
            {"type": "number", "minimum": -90, "maximum": 90},
            {"type": "number", "minimum": -180, "maximum": 180},
        ],
        "anyOf": [{"maxItems": 0}, {"minItems": 2, "maxItems": 2}],
    },
    ("Broker", "addresses"): {"items": {"type": "string", "pattern": CONNECTS}},
    ("Broker", "control"): {"pattern": rf"^(?:{_PATH})?$"},
    ("Broker", "coordinator"): {"pattern": rf"^$|{CONNECTS}"},
    ("Broker", "backend"): {"pattern": rf"^$|{CONNECTS}"},
    ("Tree", "neighbours"): {"items": {"type": "string", "pattern": CONNECTS}},
    ("Onehop", "dimensions"): {"maxItems": DIMENSIONS_MAX, "uniqueItems": True},
    ("Topics", "by"): {"uniqueItems": True},
    ("Onehop", "seeds"): {"items": {"type": "string", "pattern": CONNECTS}},
    ("Chord", "members"): {"items": {"type": "string", "pattern": CONNECTS}},
    ("Http", "listen"): {"pattern": rf"^(?:.+:{_PORT})?$"},
    ("DeliveryLog", "content"): {"enum": [False]},
}


def configuration_schema() -> dict[str, Any]:
    (made,), definitions = _schemas(Settings)
    title = "Configuration of grapevined"
    return {"$schema": DIALECT, "title": title, **made, "allOf": rules(), "$defs": definitions}


def topology_schema(generate: type, client: type) -> dict[str, Any]:
    """`generate` and `client` are the tables of a topology file that have classes of their own."""
    (_, generated, clients), definitions = _schemas(Settings, generate, client)
    sections = definitions["Settings"]["properties"]
    own = definitions["Broker"]["properties"]
    text = {"type": "string"}
    plain = {
        **own,
        **sections,
        "name": {**text, "minLength": 1},
        "host": text,
        "listen": {"anyOf": [text, {"type": "array", "items": text}]},
        "neighbours": {"type": "array", "items": text},
        "start_s": {"type": "number", "minimum": 0},
    }
    broker = {"type": "object", "properties": plain, "required": ["name"], "additionalProperties": False}
    return {
        "$schema": DIALECT,
        "title": "Topology: brokers and clients, on one host or many",
        "type": "object",
        "properties": {
            "port": {"type": "integer", "minimum": 1, "maximum": 65_535},
            "generate": generated,
            "defaults": {"$ref": "#/$defs/Settings"},
            "broker": {"type": "array", "items": broker},
            "client": {"type": "array", "items": clients},
        },
        "additionalProperties": False,
        "anyOf": [{"required": ["generate"]}, {"required": ["broker"]}],
        "$defs": definitions,
    }


def _schemas(*kinds: type) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    made, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        for said in definition.get("properties", {}).values():
            said.pop("default", None)  # of a section: its keys have theirs
    for (section, name), rule in RULES.items():
        definitions[section]["properties"][name] |= rule
    return list(made), definitions
