"""Rows of a source as publications: one column an attribute, one for the payload, one for what is wrong.

`_problem` is null for a row that can be published. Every mistake that can be seen without reading a row is
told before anything starts: a column that is not there, a type that can be no attribute.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING

from grapevine.filters.checking import check_attributes
from pipeline.mapping import ALL, Attribute, Mapping
from pipeline.source import BROKEN, FILE, LINE, ROW, SAMPLE_ROWS, Source, described, field
from pipeline.trouble import USAGE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROBLEM, PAYLOAD, TIME = "_problem", "_payload", "_time"
SPARK_TYPES = {"int": "bigint", "number": "double", "bool": "boolean", "string": "string"}
WORDS = {"int": "a whole number", "number": "a number", "bool": "true or false"}
ADVICE = {
    "timestamp": "write {name}:string or {name}:number (seconds), or leave it out",
    "date": "write {name}:string, or leave it out",
    "binary": "give it as --payload, or leave it out",
}


def planned(source: Source, mapping: Mapping) -> list[Attribute]:
    """The attributes with their types. Of JSON a key may be named that is not in the first lines, if its type
    is said."""
    if source.format == "json":
        for attribute in mapping.attributes:
            if attribute.column and attribute.type:
                source.kinds.setdefault(attribute.column, attribute.type)
    missing = [name for name in mapping.columns() if name not in source.kinds]
    if missing:
        raise Trouble(_no_column(source, missing[0]), USAGE)
    wanted = mapping.attributes or _every_column(source, mapping)
    if not wanted:
        raise Trouble(f"{source.path}: no column becomes an attribute", USAGE)
    names = [attribute.name for attribute in wanted]
    try:
        check_attributes(dict.fromkeys(names, 0))
    except ValueError as error:
        raise Trouble(
            f"{source.files[0]}: {error}: rename it, --attributes 'good_name=column'", USAGE
        ) from None
    if taken := {*names} & {FILE, LINE, PROBLEM, PAYLOAD, TIME}:
        raise Trouble(f"{source.files[0]}: an attribute cannot be called {min(taken)}: rename it", USAGE)
    return [_typed(source, attribute) for attribute in wanted]


def _no_column(source: Source, name: str) -> str:
    near = get_close_matches(name, source.kinds, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(source.kinds)}"
    return f"{source.files[0]}: no column {name}: {hint}"


def _every_column(source: Source, mapping: Mapping) -> list[Attribute]:
    payload = mapping.payload.column
    return [Attribute(name, name) for name in source.kinds if not payload or name != payload]


def _typed(source: Source, attribute: Attribute) -> Attribute:
    if attribute.value is not None:
        return attribute
    kind = source.kinds[attribute.column]
    castable = described(kind) is not None or (attribute.type and kind in ("timestamp", "date"))
    if not castable or (kind == "date" and attribute.type not in ("", "string")):
        advice = ADVICE.get(kind, "leave it out, or take it apart first").format(name=attribute.column)
        what = f"{source.files[0]}: column {attribute.column} is {kind}"
        raise Trouble(f"{what}: an attribute is a number, a string or a bool; {advice}", USAGE)
    return Attribute(attribute.name, attribute.column, attribute.type or kind)  # type: ignore[arg-type]


# --- columns --------------------------------------------------------------------------------------


def shaped(
    table: DataFrame, source: Source, mapping: Mapping, plan: list[Attribute], omit: bool
) -> DataFrame:
    """`omit`: a null is an attribute that the publication does not have, and no problem."""
    from pyspark.sql import functions as F

    columns = [value(source, attribute).alias(attribute.name) for attribute in plan]
    place = F.col(LINE) if source.is_text else F.col(ROW).cast("string")
    wrong = F.coalesce(
        broken(source), *(() if mapping.attributes else unknown_keys(source)),
        problem(source, plan, omit, mapping.time.column),
    )  # fmt: skip
    payload = payload_of(source, mapping).alias(PAYLOAD)
    extra = [F.col(FILE), place.alias(LINE), wrong.alias(PROBLEM), payload]
    if mapping.time.column:
        extra.append(seconds(source, mapping.time.column).alias(TIME))
    return table.select(*columns, *extra)


def value(source: Source, attribute: Attribute) -> Column:
    from pyspark.sql import functions as F

    if attribute.value is not None:
        return F.lit(attribute.value)
    return converted(source, attribute.column, attribute.type)


def converted(source: Source, column: str, type: str) -> Column:
    """Null where the text is none of this type."""
    from pyspark.sql import functions as F

    found = field(column)
    if not source.is_text:
        return found.cast(SPARK_TYPES[type])
    return found if type == "string" else F.trim(found).try_cast(SPARK_TYPES[type])


def broken(source: Source) -> Column:
    from pyspark.sql import functions as F

    what = "JSON" if source.format == "json" else "CSV"
    found = F.when(F.col(BROKEN).isNotNull(), F.lit(f"no whole {what} record"))
    if source.is_text:
        found = found.when(~F.is_valid_utf8(F.col(LINE)), F.lit("bytes that are no UTF-8: convert it first"))
    return found


def unknown_keys(source: Source) -> list[Column]:
    """Where every key becomes an attribute, one that first comes after the lines that were looked at has no
    column: such a row is not published without it."""
    from pyspark.sql import functions as F

    if source.format != "json":
        return []
    keys = F.array_except(F.json_object_keys(F.col(LINE)), F.array(*map(F.lit, source.kinds)))
    where = f" is not in the first {SAMPLE_ROWS:,} lines of {source.files[0]}"
    advice = "name the attributes that are wanted, this one with its type: --attributes 'a, b, key:string'"
    told = F.concat(F.lit("key "), F.array_join(keys, ", "), F.lit(f"{where}: {advice}"))
    return [F.when(F.size(keys) > 0, told)]


def problem(source: Source, plan: list[Attribute], omit: bool, time: str = "") -> Column:
    """The first thing that is wrong with the values of a row, in words."""
    from pyspark.sql import functions as F

    found = [F.lit(None).cast("string")]
    if source.header:  # of a file that came later, with its columns in another order
        names = list(source.kinds)
        heading = reduce(lambda left, right: left & right, (field(name).isin(names) for name in names))
        found.append(F.when(heading, F.lit(f"other columns than in {source.files[0]}")))
    for attribute in plan:
        if attribute.value is not None:
            continue
        raw, made = field(attribute.column), value(source, attribute)
        name = attribute.name
        if not omit:
            found.append(
                F.when(raw.isNull(), F.lit(f"attribute {name} is null (--nulls omit leaves it out)"))
            )
        if attribute.type in WORDS:
            told = F.concat(
                F.lit(f"attribute {name}: '"), raw.cast("string"), F.lit(f"' is not {WORDS[attribute.type]}")
            )
            found.append(F.when(raw.isNotNull() & made.isNull(), told))
        if attribute.type == "number":
            found.append(
                F.when(F.isnan(made), F.lit(f"attribute {name} is NaN, which nothing can be compared with"))
            )
    if time:
        told = F.concat(
            F.lit(f"{time}: '"), F.coalesce(field(time).cast("string"), F.lit("")), F.lit("' is no time")
        )
        found.append(F.when(seconds(source, time).isNull(), told))
    return F.coalesce(*found)


def payload_of(source: Source, mapping: Mapping) -> Column:
    """Null where none is wanted: without a column for it the data source would take one called `payload`."""
    from pyspark.sql import functions as F

    payload = mapping.payload
    if payload.column:
        kind = source.kinds[payload.column]
        if kind not in ("string", "binary") and not source.is_text:
            raise Trouble(
                f"{source.files[0]}: column {payload.column} is {kind}: a payload is text or bytes", USAGE
            )
        return field(payload.column)
    if not payload.columns:
        return F.lit(None).cast("binary")
    if payload.columns == [ALL] and source.format == "json":
        return F.col(LINE)
    names = list(source.kinds) if payload.columns == [ALL] else payload.columns
    return F.to_json(F.struct(*[_json_value(source, name).alias(name) for name in names]))


def _json_value(source: Source, name: str) -> Column:
    kind = described(source.kinds[name])
    return converted(source, name, kind) if kind else field(name)


def seconds(source: Source, column: str) -> Column:
    """The data's own time: a number of seconds, or a date and time as text."""
    kind = source.kinds[column]
    if kind in ("int", "number"):
        return converted(source, column, "number")
    moment = field(column).cast("timestamp") if not source.is_text else field(column).try_cast("timestamp")
    return moment.cast("double")
