"""`python -m tools.pubctl.schemas`: write the JSON Schemas beside the default configuration anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from daemon.settings.schema import FILE, TOPOLOGY_FILE, configuration_schema, topology_schema
from tools.pubctl.topology import ClientPlan, Generate

HOME = Path(__file__).resolve().parents[2] / "daemon"
KINDS = ("configuration", "topology")


def schema(kind: str) -> dict[str, Any]:
    return configuration_schema() if kind == "configuration" else topology_schema(Generate, ClientPlan)


def written(kind: str) -> str:
    return json.dumps(schema(kind), indent=1, ensure_ascii=False) + "\n"


FILES = dict(zip(KINDS, (HOME / FILE, HOME / TOPOLOGY_FILE), strict=True))

if __name__ == "__main__":
    for kind, path in FILES.items():
        path.write_text(written(kind))
