"""Writes the JSON Schema of every document of the page into docs/schema: `python -m tools.web.contract`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tools.web.model import schemas


def main() -> None:
    place = Path(__file__).resolve().parents[2] / "docs" / "schema"
    place.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = msgspec.json.format(msgspec.json.encode(schema), indent=1)
        (place / f"{name}.json").write_bytes(text + b"\n")
        print(place / f"{name}.json")


if __name__ == "__main__":
    main()
