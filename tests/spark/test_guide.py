"""The walk-through of docs/spark.md runs against a real broker, and its tables are the code's."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import grapevine
from grapevine.spark.options import READER, WRITER
from tests.spark.feeding import Brokers
from tests.spark.test_reading import begun

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_walk_through(spark: Any, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPEVINE_KEYS", str(brokers.fed.keys))
    scope: dict[str, Any] = {}
    assert len(EXAMPLES) == 6
    keys = f'.option("keys", "{brokers.fed.keys}").option("brokers", '
    with brokers.reading("class = 'STOCK'", "symbol") as reader:
        reader.kept = 10
        for example in EXAMPLES:
            text = example.replace("tcp://127.0.0.1:7470", brokers.fed.address)
            exec(text.replace('.option("brokers", ', keys), scope)  # noqa: S102
        assert reader.all(6) == {"YHOO": 3, "IBM": 3}
        assert {message.payload for message in reader.messages} == {b"raw"}
        assert sum("price" in message.attributes for message in reader.messages) == 2
    reading = scope["reading"]
    while not reading.recentProgress:
        if (
            not reading.isActive
        ):  # Spark gives its Python ten seconds to start: begun again, as in test_reading
            reading = begun(scope["deliveries"], "expensive")
        time.sleep(0.1)
    assert _read(brokers, spark, reading) == [("IBM", 84.2, 910)]


def _read(brokers: Brokers, spark: Any, reading: Any) -> list[tuple[Any, ...]]:
    with grapevine.connect(brokers.fed.address, keys=str(brokers.fed.keys)) as client:
        for symbol, close in (("IBM", 84.2), ("YHOO", 18.37)):
            client.publish({"class": "STOCK", "symbol": symbol, "close": close, "volume": 910})
        client.flush(timeout=30)
    while not (rows := spark.table("expensive").collect()):
        assert reading.isActive, reading.exception()
        time.sleep(0.1)
    reading.stop()
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(("heading", "options"), [("To write:", WRITER), ("To read:", READER)])
def test_tables_of_options(heading: str, options: dict[str, str]) -> None:
    section = PAGE.partition(heading)[2].partition("\n\n|")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", section, re.MULTILINE)) == options
