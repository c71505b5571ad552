"""Channel files: datasets and channels in TOML (docs/channels.md), with every mistake at once and its place.

    [dataset.EmergencyReports]
    filter = "class = 'report'"
    columns = "id string, type string, lat double, lon double"
    keep = "1h"

    [channel.EmergenciesNear]
    period = "10s"
    new = "EmergencyReports"
    parameters = { type = "string", lat = "double", lon = "double", km = { type = "double", default = 2 } }
    sql = "SELECT r.id FROM EmergencyReports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)"

What only Spark can know (whether a column exists, of what type a result is) is asked of Spark when the
channel is created.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from grapevine.errors import FilterError
from grapevine.filters import parse
from grapevine.wire.catalog import CONTINUOUS, FED_COLUMNS, Channel, Dataset
from grapevine.wire.parameters import PARAMETERS_MAX, Parameter, mistakes
from pipeline.channels.direct import direct
from pipeline.channels.places import Places
from pipeline.channels.rewrite import ALL, OURS, QueryError, is_parameter, uses

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
COLUMN_TYPES = ("string", "double", "float", "bigint", "int", "boolean", "timestamp")
PERIOD_MIN_S = 1.0
TIME_MAX_S = 3_660 * 86_400.0  # ten years
DATASET_KEYS = {"filter", "columns", "key", "keep", "file"}
CHANNEL_KEYS = {"period", "new", "parameters", "sql", "keep"}
PARAMETER_KEYS = {"type", "snap", "default", "min", "max"}


class Mistake(NamedTuple):
    file: str
    line: int
    column: int
    key: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column}: {self.key}: {self.text}"
            if self.key
            else (f"{self.file}:{self.line}:{self.column}: {self.text}")
        )


class Definitions(NamedTuple):
    datasets: dict[str, Dataset]
    channels: dict[str, Channel]


class FileMistakes(Exception):
    def __init__(self, found: list[Mistake]) -> None:
        super().__init__("\n".join(map(str, found)))
        self.found = found


def read_file(path: Path, known: Mapping[str, Dataset] | None = None) -> Definitions:
    """`known`: datasets that there are already."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise FileMistakes([Mistake(str(path), 1, 1, "", f"cannot be read: {reason}")]) from None
    return read_text(text, str(path), known or {}, path.parent)


def read_text(text: str, name: str, known: Mapping[str, Dataset], folder: Path | None = None) -> Definitions:
    """`folder`: where files of datasets must be."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        line, column = (int(said[2]), int(said[3])) if said else (len(text.splitlines()), 1)
        raise FileMistakes([Mistake(name, line, column, "", said[1] if said else str(error))]) from None
    return Reader(document, Places(text), name, folder).read(known)


class Reader:
    def __init__(
        self, document: dict[str, Any], places: Places, name: str, folder: Path | None = None
    ) -> None:
        self.document, self.places, self.name, self.folder = document, places, name, folder
        self.found: list[Mistake] = []
        self.known: dict[str, Dataset] = {}

    def read(self, known: Mapping[str, Dataset]) -> Definitions:
        for word in self.document:
            if word not in ("dataset", "channel"):
                self.wrong(f"unknown; a file has [dataset.NAME] and [channel.NAME]{_meant(word)}", word)
        datasets = {each.name: each for each in self.each("dataset", self.dataset)}
        self.known = {**known, **datasets}
        channels = {each.name: each for each in self.each("channel", self.channel)}
        self.names(datasets, channels)
        if self.found:
            raise FileMistakes(sorted(self.found, key=lambda each: each[1:3]))
        return Definitions(datasets, channels)

    def wrong(self, text: str, *path: str, at: tuple[int, int] | None = None) -> None:
        line, column = at or self.places.of(*path)
        self.found.append(Mistake(self.name, line, column, ".".join(path), text))

    def each(self, kind: str, read: Any) -> Iterator[Any]:
        tables = self.document.get(kind, {})
        if not isinstance(tables, dict):
            self.wrong(f"write [{kind}.NAME]", kind)
            return
        for name, table in tables.items():
            where = f"{kind}.{name}"
            if not NAME.fullmatch(name):
                self.wrong("a name is a letter, then letters, digits and _, at most 64", where)
            elif not isinstance(table, dict):
                self.wrong(f"write [{where}]", kind, name)
            elif (made := read(name, where, table)) is not None:
                yield made

    def keys(self, where: str, table: dict[str, Any], known: set[str]) -> None:
        for key in table:
            if key not in known:
                self.wrong(f"unknown; known are {', '.join(sorted(known))}{_meant(key, known)}", where, key)

    def names(self, datasets: Mapping[str, Dataset], channels: Mapping[str, Channel]) -> None:
        """Datasets and channels are one space, and Spark knows no small letters from large ones."""
        taken = {name.lower(): name for name in self.known if name not in datasets}
        for kind, name in [
            *(("dataset", each) for each in datasets),
            *(("channel", each) for each in channels),
        ]:
            where = f"{kind}.{name}"
            if name.lower().endswith(ALL) and kind == "dataset":
                self.wrong(f"NAME{ALL} means all rows of NAME: take another name", where)
            other = taken.setdefault(name.lower(), name)
            if (other != name) or (kind == "channel" and name in self.known):
                self.wrong(f"there is {other} already", where)

    # --- datasets ------------------------------------------------------------------------------------------

    def dataset(self, name: str, where: str, table: dict[str, Any]) -> Dataset | None:
        self.keys(where, table, DATASET_KEYS)
        if ("filter" in table) == ("file" in table):
            self.wrong("has either a filter, which says what feeds it, or a file", where)
            return None
        if "file" in table:
            for key in ("columns", "key", "keep"):
                if key in table:
                    self.wrong("is of a dataset that is fed; a file brings its own columns", where, key)
            return self.file(name, where, table["file"])
        self.filter(where, table)
        columns = self.columns(where, table)
        keys = self.strings(where, table, "key")
        for each in keys:
            if each not in dict((*columns, *FED_COLUMNS)):
                self.wrong(f"no column {each!r}{_meant(each, dict(columns))}", where, "key")
        return Dataset(name, table["filter"], columns, keys, self.duration(where, table, "keep", 3600.0))

    def file(self, name: str, where: str, given: Any) -> Dataset | None:
        if not isinstance(given, str) or not given:
            self.wrong("is not the name of a file", where, "file")
            return None
        if self.folder is None:
            return Dataset(name, file=given)
        path = (self.folder / given).resolve()
        if not path.exists():
            self.wrong(f"{path} is not there", where, "file")
        return Dataset(name, file=str(path))

    def filter(self, where: str, table: dict[str, Any]) -> None:
        if not isinstance(table["filter"], str):
            self.wrong("is not text", where, "filter")
            return
        try:
            parse(table["filter"])
        except FilterError as error:
            at = self.places.within((where, "filter"), 1, error.position + 1)
            self.wrong(error.message, where, "filter", at=at)

    def columns(self, where: str, table: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        text = table.get("columns", "")
        if not isinstance(text, str):
            self.wrong('is not text: write "id string, lat double"', where, "columns")
            return ()
        found: dict[str, str] = {}
        for part in re.finditer(r"[^,\s][^,]*", text):
            at = self.places.within((where, "columns"), 1, part.start() + 1)
            words = part[0].split()
            if len(words) != 2:
                self.wrong(f"{part[0].strip()!r} is not a name and a type", where, "columns", at=at)
            elif words[1].lower() not in COLUMN_TYPES:
                known = ", ".join(COLUMN_TYPES)
                self.wrong(f"type {words[1]!r} is not one of {known}", where, "columns", at=at)
            elif words[0].startswith(OURS):
                self.wrong(f"names that begin with {OURS} are taken", where, "columns", at=at)
            elif words[0].lower() in {name.lower() for name in (*found, *dict(FED_COLUMNS))}:
                self.wrong(f"column {words[0]!r} is there already", where, "columns", at=at)
            else:
                found[words[0]] = words[1].lower()
        if not found and not self.found:
            self.wrong("has no columns", where)
        return tuple(found.items())

    # --- channels ------------------------------------------------------------------------------------------

    def channel(self, name: str, where: str, table: dict[str, Any]) -> Channel | None:
        datasets = self.known
        self.keys(where, table, CHANNEL_KEYS)
        parameters = self.parameters(where, table)
        period_s = self.period(where, table)
        new = self.strings(where, table, "new")
        for each in new:
            if each not in datasets or not datasets[each].fed:
                fed = [known for known, dataset in datasets.items() if dataset.fed]
                self.wrong(f"{each!r} is not a dataset that is fed{_meant(each, fed)}", where, "new")
        if not isinstance(table.get("sql"), str):
            self.wrong("has no sql", where)
            return None
        before = len(self.found)
        self.sql(where, table["sql"], {each.name for each in parameters}, datasets)
        keep_s = self.duration(where, table, "keep", 86_400.0)
        found = Channel(name, table["sql"], parameters, period_s, new, keep_s)
        if len(self.found) > before:
            return found
        plainly = direct(found.sql, parameters, period_s, new, datasets)
        return msgspec.structs.replace(found, direct=plainly)

    def period(self, where: str, table: dict[str, Any]) -> float:
        if table.get("period") == "continuous":
            if not table.get("new"):
                self.wrong("continuous needs `new`: what it waits for", where, "period")
            return CONTINUOUS
        if "period" not in table:
            self.wrong('has no period, such as "10s"', where)
            return CONTINUOUS
        period_s = self.duration(where, table, "period", 10.0)
        if period_s < PERIOD_MIN_S:
            self.wrong('is below 1s; "continuous" runs as rows come', where, "period")
        return period_s

    def sql(self, where: str, sql: str, declared: set[str], datasets: Mapping[str, Dataset]) -> None:
        def at(line: int, column: int) -> tuple[int, int]:
            return self.places.within((where, "sql"), line, column)

        try:
            used = uses(sql)
        except QueryError as error:
            self.wrong(str(error), where, "sql", at=at(error.line, error.column))
            return
        for name, place in used.tables.items():
            base = name.removesuffix(ALL)
            if name not in datasets and not (base in datasets and datasets[base].fed):
                self.wrong(f"no dataset {name!r}{_meant(name, datasets)}", where, "sql", at=at(*place))
        for name, place in used.nearest.items():
            if name not in datasets or datasets[name].fed:
                text = f"nearest needs a dataset from a file, {name!r} is none"
                self.wrong(text, where, "sql", at=at(*place))
        for name, place in used.parameters.items():
            if name not in declared:
                text = f"parameter :{name} is not declared{_meant(name, declared)}"
                self.wrong(text, where, "sql", at=at(*place))
        for name in declared - used.parameters.keys():
            self.wrong("is declared and not used", where, "parameters", name)
        for place in used.ours.values():
            self.wrong(f"names that begin with {OURS} are taken", where, "sql", at=at(*place))

    def parameters(self, where: str, table: dict[str, Any]) -> tuple[Parameter, ...]:
        given = table.get("parameters", {})
        if not isinstance(given, dict):
            self.wrong('is not a table: write { type = "string" }', where, "parameters")
            return ()
        if len(given) > PARAMETERS_MAX:
            self.wrong(f"has more than {PARAMETERS_MAX}", where, "parameters")
        for name in given:
            if (first := next(each for each in given if each.lower() == name.lower())) != name:
                self.wrong(f"there is {first} already", where, "parameters", name)
        return tuple(made for name, each in given.items() if (made := self.parameter(where, name, each)))

    def parameter(self, where: str, name: str, given: Any) -> Parameter | None:
        path = (where, "parameters", name)
        given = {"type": given} if isinstance(given, str) else given
        if not isinstance(given, dict) or not isinstance(given.get("type"), str):
            self.wrong('has no type: write { type = "double" } or "double"', *path)
            return None
        if not NAME.fullmatch(name):
            self.wrong("a name is a letter, then letters, digits and _", *path)
        elif not is_parameter(name):
            self.wrong("is a word of SQL: take another name", *path)
        for key in given:
            if key not in PARAMETER_KEYS:
                self.wrong(
                    f"unknown; known are {', '.join(sorted(PARAMETER_KEYS))}{_meant(key, PARAMETER_KEYS)}",
                    *path,
                    key,
                )
        snap = given.get("snap")
        if snap is not None and (isinstance(snap, bool) or not isinstance(snap, int | float)):
            self.wrong("snap is not a number", *path)
            snap = None
        values = {key: given.get(key) for key in ("default", "min", "max")}
        values = {key: _plain(value) for key, value in values.items()}
        made = Parameter(name, given["type"].lower(), snap, values["default"], values["min"], values["max"])
        for text in mistakes(made):
            self.wrong(text, *path)
        return made

    # --- values --------------------------------------------------------------------------------------------

    def strings(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        given = table.get(key, [])
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            self.wrong("is not a name or a list of names", where, key)
            return ()
        return tuple(given)

    def duration(self, where: str, table: dict[str, Any], key: str, default_s: float) -> float:
        if key not in table:
            return default_s
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", str(table[key]))
        if found is None or float(found[1]) <= 0:
            self.wrong(f'{table[key]!r} is not a time such as "10s", "5m", "1h", "1d"', where, key)
            return default_s
        seconds = float(found[1]) * UNITS_S[found[2]]
        if seconds > TIME_MAX_S:
            self.wrong("is more than ten years", where, key)
            return default_s
        return seconds


def _plain(value: Any) -> Any:
    """A time of TOML is text to a parameter."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _meant(name: str, known: Any = ("dataset", "channel")) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
