"""What is fed: CSV, JSON lines or Parquet; a file, a directory or a glob; read once or as it grows.

Text is read line by line and taken apart here, so that every row keeps the line that it came from: a row that
cannot be published is told by file and line, not by partition and task. A line that is no record (half
written, too few columns) is such a row, never left out silently. One line is one record.
"""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from pipeline.mapping import Type, suggested
from pipeline.trouble import FAILED, NOT_FOUND, USAGE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("csv", "json", "parquet")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
PACKED = (
    ".xz",
    ".zip",
    ".zst",
    ".7z",
    ".lz4",
    ".lzma",
    ".tar",
    ".tgz",
    ".Z",
)  # Spark would read them as they are
SAMPLE_ROWS = 1000
FILE, LINE, ROW, BROKEN, FIELDS = "_file", "_line", "_row", "_broken", "_fields"

NESTED = "nested"
PARQUET_TYPES = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "int"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    "string": "string",
    "boolean": "bool",
}


class Source(msgspec.Struct):
    path: str
    format: str
    files: list[str]
    kinds: dict[str, str]  # column -> int, number, string, bool, or a type that is no attribute's
    header: str = ""  # the first line of every CSV file
    separator: str = ","

    @property
    def is_text(self) -> bool:
        return self.format != "parquet"


def opened(path: str, format: str | None = None, separator: str | None = None) -> Source:
    """The source, looked at: its files, its columns and what their first rows hold."""
    files = files_of(path)
    for file in files:
        if Path(file).suffix in PACKED:
            raise Trouble(f"{file}: unpack it first; only .gz and .bz2 are read as they are", USAGE)
    format = format or guessed(path, files)
    separator = separator or ("\t" if Path(files[0]).suffix == ".tsv" else ",")
    if len(separator.encode()) != 1:
        raise Trouble(f"--separator {separator!r}: one character", USAGE)
    source = Source(path, format, files, {}, separator=separator)
    if format == "parquet":
        source.kinds = _parquet_kinds(files[0])
        _check_schemas(source)
    elif format == "csv":
        source.header, source.kinds = _csv_kinds(files[0], separator)
        _check_headers(source)
    else:
        source.kinds = _json_kinds(files[0])
    _check_names(source)
    return source


def files_of(path: str) -> list[str]:
    place = Path(path)
    if place.is_dir():
        found = [p for p in sorted(place.rglob("*")) if p.is_file() and not _hidden(p, place)]
    else:
        found = [Path(name) for name in sorted(glob.glob(path)) if Path(name).is_file()]
        found = found or ([place] if place.is_file() else [])
    if not found:
        why = "is empty" if place.is_dir() else "does not exist"
        raise Trouble(f"{path} {why}: a file, a directory or a glob of CSV, JSON lines or Parquet", NOT_FOUND)
    return [str(file) for file in found]


def _hidden(path: Path, root: Path) -> bool:
    """As Spark has it."""
    return any(part.startswith(("_", ".")) for part in path.relative_to(root).parts)


def guessed(path: str, files: list[str]) -> str:
    suffixes = [s for s in Path(files[0]).suffixes if s in SUFFIXES]
    if not suffixes:
        raise Trouble(f"{path}: CSV, JSON or Parquet? Say --format", USAGE)
    return SUFFIXES[suffixes[-1]]


# --- columns and kinds ----------------------------------------------------------------------------


def text_of(path: str, errors: str = "replace") -> IO[str]:
    opener = OPENERS.get(Path(path).suffix, open)
    return io.TextIOWrapper(opener(path, "rb"), encoding="utf-8", errors=errors, newline="\n")


@contextmanager
def sampled(path: str) -> Iterator[IO[str]]:
    """The file for a look at its first lines; `shaping` tells of later ones that are no UTF-8."""
    try:
        with text_of(path, "strict") as file:
            yield file
    except UnicodeDecodeError:
        raise Trouble(f"{path}: not UTF-8 text: convert it first", FAILED) from None
    except (OSError, EOFError, csv.Error) as error:
        raise Trouble(f"{path}: {error}", FAILED) from None


def _check_names(source: Source) -> None:
    """Spark does not tell small letters from capitals."""
    seen: dict[str, str] = {}
    for name in source.kinds:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise Trouble(f"{source.files[0]}: the columns {other} and {name} differ in case only", USAGE)
    if BROKEN in seen:
        raise Trouble(f"{source.files[0]}: a column cannot be called {BROKEN}: rename it", USAGE)


def _csv_kinds(path: str, separator: str) -> tuple[str, dict[str, str]]:
    with sampled(path) as file:
        header = _header(file)
        rows = list(csv.reader(islice(file, SAMPLE_ROWS), delimiter=separator))
    names = next(csv.reader([header], delimiter=separator), [])
    if not names or any(not name.strip() for name in names):
        raise Trouble(f"{path}: its first line has to name every column", USAGE)
    if twice := {name for name in names if names.count(name) > 1}:
        raise Trouble(f"{path}: two columns are called {min(twice)}", USAGE)
    whole = [row for row in rows if len(row) == len(names)]
    return header, {name: suggested([row[place] for row in whole]) for place, name in enumerate(names)}


def _header(file: IO[str]) -> str:
    """As Spark reads it: without the mark that some programs put before a text."""
    return file.readline().removeprefix("\ufeff").rstrip("\r\n")


def _check_headers(source: Source) -> None:
    """One plan holds for all files: another order of columns in one would go out as what it is not."""
    for path in source.files[1:]:
        with sampled(path) as file:
            header = _header(file)
        if header.strip() and header != source.header:
            raise Trouble(
                f"{path}: its first line names other columns than that of {source.files[0]}: feed it apart",
                USAGE,
            )


def _json_kinds(path: str) -> dict[str, str]:
    values: dict[str, list[Any]] = {}
    with sampled(path) as file:
        for line in islice(file, SAMPLE_ROWS):
            try:
                record = msgspec.json.decode(line)
            except msgspec.MsgspecError:
                continue
            for name, value in record.items() if isinstance(record, dict) else ():
                values.setdefault(name, []).append(value)
    if not values:
        raise Trouble(f"{path}: no JSON object in its first {SAMPLE_ROWS:,} lines", FAILED)
    return {name: _json_kind([v for v in found if v is not None]) for name, found in values.items()}


def _json_kind(values: list[Any]) -> str:
    if any(isinstance(value, list | dict) for value in values):
        return NESTED
    if values and all(isinstance(value, bool) for value in values):
        return "bool"
    if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "int" if all(isinstance(value, int) for value in values) else "number"
    return "string"


def _parquet_kinds(path: str) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise Trouble(f"{path}: not Parquet: {str(error).splitlines()[0]}", FAILED) from None
    return {field.name: _arrow_kind(field.type) for field in schema}


def _check_schemas(source: Source) -> None:
    """Spark takes the columns of one file for those of all: a further one would be left out unsaid."""
    for path in source.files[1:]:
        kinds = _parquet_kinds(path)
        if kinds != source.kinds:
            other = sorted(set(kinds.items()) ^ set(source.kinds.items()))[0][0]
            first = source.files[0]
            raise Trouble(f"{path}: its column {other} is not as in {first}: feed it apart", USAGE)


def _arrow_kind(type: Any) -> str:
    import pyarrow.types as pt

    for fits, kind in (
        (pt.is_boolean, "bool"),
        (pt.is_integer, "int"),
        (pt.is_floating, "number"),
        (pt.is_decimal, "number"),
        (lambda t: pt.is_string(t) or pt.is_large_string(t), "string"),
        (pt.is_date, "date"),
        (pt.is_timestamp, "timestamp"),
        (lambda t: pt.is_binary(t) or pt.is_large_binary(t), "binary"),
    ):
        if fits(type):
            return kind
    return str(type)


# --- rows -----------------------------------------------------------------------------------------


def rows(spark: SparkSession, source: Source, stream: bool, files_at_once: int | None = None) -> DataFrame:
    """Columns `_file`, `_line` or `_row`, `_broken` (not null: no record) and `_fields` (the columns)."""
    from pyspark.sql import functions as F

    reader: Any = spark.readStream if stream else spark.read
    if stream and files_at_once:
        reader = reader.option("maxFilesPerTrigger", files_at_once)
    place = _place(source.path)
    file = F.col("_metadata.file_path").alias(FILE)
    if not source.is_text:
        if stream:
            reader = reader.schema(spark.read.parquet(source.files[0]).schema)
        table = reader.option("recursiveFileLookup", "true").parquet(place)
        fields = F.struct(*[F.col(_quoted(name)) for name in source.kinds]).alias(FIELDS)
        row = (F.col("_metadata.row_index") + 1).alias(ROW)
        return table.select(file, row, F.lit(None).cast("string").alias(BROKEN), fields)
    lines = reader.option("recursiveFileLookup", "true").text(place)
    lines = lines.select(file, F.col("value").alias(LINE)).where(F.length(F.trim(LINE)) > 0)
    if source.header:
        lines = lines.where(F.col(LINE) != source.header)
    parsed = lines.withColumn(FIELDS, _parsed(source))
    broken = F.col(f"{FIELDS}.{BROKEN}")
    return parsed.withColumn(BROKEN, F.coalesce(broken, _more()) if source.format == "json" else broken)


def _more() -> Column:
    """Not null where a line goes on after its record: of two Spark would take the first only."""
    from pyspark.sql import functions as F

    records = F.json_array_length(F.concat(F.lit("["), F.col(LINE), F.lit("]")))
    return F.when(records.isNull() | (records != 1), F.col(LINE))


def _place(path: str) -> str:
    """For Spark, which takes brackets and stars for a pattern also where a file is called so."""
    place = str(Path(path).absolute())
    return re.sub(r"([][{}*?\\])", r"\\\1", place) if Path(path).exists() else place


def _parsed(source: Source) -> Column:
    """The line as its columns, all of them text: what they mean is the mapping's business."""
    from pyspark.sql import functions as F

    schema = ", ".join(f"{_quoted(name)} string" for name in [*source.kinds, BROKEN])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN}
    if source.format == "csv":
        return F.from_csv(F.col(LINE), schema, {**options, "sep": source.separator})
    return F.from_json(F.col(LINE), schema, options)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def field(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"{FIELDS}.{_quoted(name)}")


def line_number(path: str, line: str, most: int) -> int | None:
    """Where a line stands in its file, counted from 1, by its first `most` characters."""
    try:
        with text_of(path) as file:
            for number, text in enumerate(file, 1):
                if text.rstrip("\r\n")[:most] == line:
                    return number
    except (OSError, EOFError):
        pass
    return None


def described(kind: str) -> Type | None:
    """The kind as a type of attributes, if it is one."""
    return kind if kind in ("int", "number", "string", "bool") else None  # type: ignore[return-value]
