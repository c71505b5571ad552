"""df.writeStream.format("grapevine"): stopped, restarted, run twice; every row once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark.feeding import Brokers, once

FILES, ROWS = 6, 2_000  # rows of one file


def source(spark: Any, path: Path, job: str, files: int = FILES) -> Path:
    """A directory of Parquet files, as many as that."""
    frame = spark.range(0, files * ROWS, 1, files).selectExpr(f"'{job}' as job", "id as row")
    frame.write.mode("overwrite").parquet(str(path))
    return path


def feed(spark: Any, path: Path, checkpoint: Path, options: dict[str, str], *, files: int = 1) -> Any:
    stream = (
        spark.readStream.schema("job STRING, row LONG").option("maxFilesPerTrigger", files).parquet(str(path))
    )
    return stream.writeStream.format("grapevine").options(**options, checkpointLocation=str(checkpoint))


@pytest.mark.parametrize("way", ["stage", "number"])
def test_a_query_stopped_and_restarted_on_its_checkpoint(
    spark: Any, brokers: Brokers, tmp_path: Path, way: str
) -> None:
    job = f"stopped-{way}"
    path = source(spark, tmp_path / "rows", job)
    with brokers.reading(f"job = '{job}'") as reader:
        options = brokers.options(once=way, publisher=job)
        query = feed(spark, path, tmp_path / "checkpoint", options).start()
        reader.wait(ROWS)
        query.stop()
        query = feed(spark, path, tmp_path / "checkpoint", options).trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None
        assert reader.all(FILES * ROWS) == once(FILES * ROWS)


@pytest.mark.parametrize("way", ["stage", "number"])
def test_a_batch_that_spark_forgot_it_had_done(
    spark: Any, brokers: Brokers, tmp_path: Path, way: str
) -> None:
    """A driver that dies after the sink's commit and before its own leaves such a checkpoint."""
    job = f"forgot-{way}"
    path = source(spark, tmp_path / "rows", job, 2)
    with brokers.reading(f"job = '{job}'") as reader:
        for _ in range(2):
            options = brokers.options(once=way)
            query = feed(spark, path, tmp_path / "checkpoint", options).trigger(availableNow=True).start()
            query.awaitTermination()
            assert reader.all(2 * ROWS) == once(2 * ROWS)
            (tmp_path / "checkpoint" / "commits" / "1").unlink()
            (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink()
        # The same, and the broker has been killed and started again meanwhile.
        brokers.restart()
        query = feed(spark, path, tmp_path / "checkpoint", options).trigger(availableNow=True).start()
        query.awaitTermination()
        assert reader.all(2 * ROWS) == once(2 * ROWS)


def test_another_checkpoint_is_another_query(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    path = source(spark, tmp_path / "rows", "another", 1)
    with brokers.reading("job = 'another'") as reader:
        for name in ("one", "two"):
            query = feed(spark, path, tmp_path / name, brokers.options()).trigger(availableNow=True).start()
            query.awaitTermination()
        assert set(reader.all(2 * ROWS).values()) == {2}


def test_files_that_arrive_later(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    path = source(spark, tmp_path / "all", "later", 3)
    live = tmp_path / "live"
    live.mkdir()
    with brokers.reading("job = 'later'") as reader:
        query = feed(spark, live, tmp_path / "checkpoint", brokers.options()).start()
        for number, file in enumerate(sorted(path.glob("*.parquet")), 1):
            shutil.copy(file, live / f".{file.name}.part")
            (live / f".{file.name}.part").rename(live / file.name)
            reader.wait(number * ROWS)
        query.stop()
        assert reader.all(3 * ROWS) == once(3 * ROWS)
