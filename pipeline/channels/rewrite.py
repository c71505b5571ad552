"""A channel's query with :parameters -> one statement for all its parameter sets.

The sets are a table, `__sets`: `__be`, a column `__p_NAME` for each parameter, and with `near` a row for each
grid cell that the set's circle touches (`__cell`). The statement's rows are `__be`, then the query's columns,
then `__row` where the query has ORDER BY: the place of a row within its set.

- flat: one SELECT with its parameters in itself. `__sets` is cross-joined in front of FROM, where Spark makes
  equalities join keys; `__be` goes to the select list and to GROUP BY; ORDER BY .. LIMIT n is the first n
  rows of each set.
- lateral: everything else: `FROM __sets, LATERAL (query)`. A predicate that is no equality crosses the sets
  with the dataset.

Values never travel in SQL text: in Spark 4.3.0 `1-:x` with a negative x begins a comment. And never through a
SQL table function: 4.3.0 drops rows of ORDER BY .. LIMIT inside one under LATERAL, silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from pipeline.channels.functions import near_sql, nearest_name

SETS, BE, CELL, ROW, LIMIT = "__sets", "__be", "__cell", "__row", "__limit"
OURS = "__"  # begins names that a query must not have
PREFIX = "__p_"
ALL = "_all"  # EmergencyReports_all: every row that is kept
# What the flat form knows how to carry over; whatever else a SELECT has makes it lateral.
FLAT_PARTS = {
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "distinct",
    "hint",
}
FLAT_JOINS = {"", "LEFT"}
FLAT_KINDS = {"", "CROSS", "INNER", "OUTER", "SEMI", "ANTI"}


class QueryError(Exception):
    """Line and column count from 1 within the query; 0 where no place is known."""

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.line, self.column = line, column


class Statement(NamedTuple):
    form: str  # flat or lateral
    sql: str
    cells: Cells | None  # if `__sets` is to have a row for each cell
    ordered: bool  # has `__row`


class Cells(NamedTuple):
    """Whose circle: parameter names, or a number for the radius."""

    latitude: str
    longitude: str
    km: str | float


class Uses(NamedTuple):
    tables: dict[str, tuple[int, int]]  # name -> where it is first used
    parameters: dict[str, tuple[int, int]]
    nearest: dict[str, tuple[int, int]]
    ours: dict[str, tuple[int, int]]  # names that are not the query's to use


def parsed(sql: str) -> exp.Expression:
    try:
        trees = sqlglot.parse(sql, read="spark")
    except ParseError as error:
        first = error.errors[0]
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise QueryError(
            f"{_said(first['description'])}{near}", first["line"] or 0, first["col"] or 0
        ) from None
    except TokenError:
        raise QueryError("a quote or a comment does not end", *_end(sql)) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select | exp.SetOperation):
        raise QueryError("a channel is one SELECT", 1, 1)
    for mark in trees[0].find_all(exp.Placeholder):
        if not mark.name or mark.name == "?":
            raise QueryError("parameters have names: write :name instead of ?", 1, 1)
    return trees[0]


def _end(sql: str) -> tuple[int, int]:
    return sql.count("\n") + 1, len(sql) - (sql.rfind("\n") + 1)


def _said(description: str) -> str:
    """sqlglot names its own classes where it misses something."""
    return re.sub(r"Required keyword: .*<class '.*\.(\w+)'>", r"\1 is not complete", description)


def uses(sql: str) -> Uses:
    """What a query names, and where."""
    tree = parsed(sql)
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables: dict[str, tuple[int, int]] = {}
    for table in tree.find_all(exp.Table):
        if table.name not in own:
            tables.setdefault(table.name, _place(table.this))
    parameters: dict[str, tuple[int, int]] = {}
    for mark in tree.find_all(exp.Placeholder):
        parameters.setdefault(mark.name, _find(sql, rf":{re.escape(mark.name)}\b"))
    nearest: dict[str, tuple[int, int]] = {}
    for call in _calls(tree, "nearest"):
        arguments = call.expressions
        if len(arguments) != 4 or not isinstance(arguments[0], exp.Column):
            raise QueryError(
                "nearest(Dataset, latitude, longitude, how many)", *_find(sql, r"(?i)\bnearest\b")
            )
        nearest.setdefault(arguments[0].name, _place(arguments[0].this))
    for call in _calls(tree, "near"):
        if len(call.expressions) != 5:
            wanted = "near(latitude, longitude, latitude, longitude, kilometres)"
            raise QueryError(wanted, *_find(sql, r"(?i)\bnear\b"))
    ours = {name.name: _place(name) for name in tree.find_all(exp.Identifier) if name.name.startswith(OURS)}
    ours |= {name: place for name, place in parameters.items() if name.startswith(OURS)}
    return Uses(tables, parameters, nearest, ours)


def _place(name: exp.Expression) -> tuple[int, int]:
    """sqlglot notes the column of a name's last character."""
    column = name.meta.get("col", 0) - len(name.name) + 1
    return name.meta.get("line", 0), max(column, 0)


def _find(sql: str, pattern: str) -> tuple[int, int]:
    found = re.search(pattern, sql)
    if found is None:
        return 0, 0
    before = sql[: found.start()]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _calls(tree: exp.Expression, name: str) -> list[exp.Anonymous]:
    return [call for call in tree.find_all(exp.Anonymous) if call.name.lower() == name]


def is_parameter(name: str) -> bool:
    """Whether :name is read as one; a word of SQL is not."""
    try:
        return [mark.name for mark in parsed(f"SELECT :{name}").find_all(exp.Placeholder)] == [name]
    except QueryError:
        return False


def one_query(sql: str) -> str:
    """For one set, with Spark's own arguments: the oracle of every rewriting. Parameters are in parentheses,
    so that a negative value is no comment."""
    tree = parsed(sql)
    _spell_functions(tree)
    for mark in list(tree.find_all(exp.Placeholder)):
        mark.replace(exp.Paren(this=mark.copy()))
    return str(tree.sql("spark"))


def rewrite(sql: str, lateral: bool = False) -> Statement:
    """`lateral` asks for that form where flat would do as well."""
    tree = parsed(sql)
    flat = not lateral and isinstance(tree, exp.Select) and is_flat(tree)
    cells = None
    if flat and not _grouped(tree) and not tree.args.get("limit") and not tree.args.get("distinct"):
        cells = _celled(tree)
    _spell_functions(tree)
    for mark in list(tree.find_all(exp.Placeholder)):
        mark.replace(exp.column(PREFIX + mark.name, table="__s"))
    if flat:
        return _flat(tree, cells)
    text = f"SELECT __s.{BE}, __q.* FROM {SETS} AS __s, LATERAL ({tree.sql('spark')}) AS __q"
    return Statement("lateral", text, None, False)


# --- whether it is flat ------------------------------------------------------------------------------------


def is_flat(tree: exp.Select) -> bool:
    parts = {part for part, value in tree.args.items() if value and part != "kind"}
    if not parts <= FLAT_PARTS or "from_" not in parts:
        return False
    if any(list(inner.find_all(exp.Placeholder)) for inner in tree.find_all(exp.Select) if inner is not tree):
        return False
    # A window or an aggregate over the whole result would go over all sets.
    if any(_own(tree, exp.Window)) or (any(_own(tree, exp.AggFunc)) and not tree.args.get("group")):
        return False
    if tree.args.get("having") and not tree.args.get("group"):
        return False
    if tree.args.get("distinct") and (tree.args.get("order") or tree.args["distinct"].args.get("on")):
        return False
    if tree.args.get("distinct") and tree.args.get("limit"):
        return False
    return _flat_group(tree) and _flat_joins(tree) and _flat_stars(tree)


def _own(tree: exp.Select, kind: type[exp.Expression]) -> Iterator[exp.Expression]:
    """Not those of queries inside it."""
    return (node for node in tree.find_all(kind) if node.find_ancestor(exp.Select) is tree)


def _flat_group(tree: exp.Select) -> bool:
    group = tree.args.get("group")
    if group is None:
        return True
    if any(value for part, value in group.args.items() if part != "expressions"):
        return False
    special = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
    return bool(group.expressions) and not any(isinstance(each, special) for each in group.expressions)


def _flat_joins(tree: exp.Select) -> bool:
    """An outer join from the right would make rows without a set."""
    for join in tree.args.get("joins") or ():
        if (join.side or "") not in FLAT_JOINS or (join.kind or "") not in FLAT_KINDS:
            return False
        if not isinstance(join.this, exp.Table | exp.Subquery):
            return False
    return isinstance(tree.args["from_"].this, exp.Table | exp.Subquery)


def _flat_stars(tree: exp.Select) -> bool:
    """`*` becomes the stars of its tables, if these are all that it means."""
    stars = [each for each in tree.expressions if isinstance(each, exp.Star)]
    if not stars:
        return True
    plain = all(not value for star in stars for value in star.args.values())
    merged = any(join.args.get("using") or join.args.get("method") for join in tree.args.get("joins") or ())
    one_sided = any(join.kind in ("SEMI", "ANTI") for join in tree.args.get("joins") or ())
    return plain and not merged and not one_sided


def _grouped(tree: exp.Expression) -> bool:
    return bool(tree.args.get("group"))


# --- flat --------------------------------------------------------------------------------------------------


def _flat(tree: exp.Select, cells: Cells | None) -> Statement:
    sources = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or ())]
    selected = _without_stars(tree.expressions, sources)
    order, limit = tree.args.get("order"), tree.args.get("limit")
    grouped = _grouped(tree)
    be = exp.column(BE, table="__s").as_(BE)
    extra = []
    if order is not None or limit is not None:
        extra.append(_numbered(order, selected, grouped))
    if limit is not None and limit.expression.find(exp.Column):
        extra.append(limit.expression.copy().as_(LIMIT))
    if grouped:
        _group_by_set(tree, selected)
    tree.set("expressions", [be, *selected, *extra])
    tree.set("order", None)
    tree.set("limit", None)
    first = exp.Join(this=tree.args["from_"].this, kind="CROSS")
    tree.set("joins", [first, *(tree.args.get("joins") or [])])
    tree.set("from_", exp.From(this=exp.to_table(SETS).as_("__s")))
    text = tree.sql("spark")
    if limit is not None:
        most = LIMIT if limit.expression.find(exp.Column) else limit.expression.sql("spark")
        gone = LIMIT if most == LIMIT else ""
        except_ = f" EXCEPT ({gone})" if gone else ""
        text = f"SELECT *{except_} FROM ({text}) WHERE {ROW} <= {most}"
    return Statement("flat", text, cells, order is not None or limit is not None)


def _without_stars(selected: Sequence[exp.Expression], sources: list[exp.Expression]) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for each in selected:
        if isinstance(each, exp.Star):
            found += [exp.Column(this=exp.Star(), table=exp.to_identifier(s.alias_or_name)) for s in sources]
        else:
            found.append(each)
    return found


def _numbered(
    order: exp.Expression | None, selected: Sequence[exp.Expression], grouped: bool
) -> exp.Expression:
    """The row's place in its set. ORDER BY may name the query's own columns, or count them; a window may
    not. Without one, which rows LIMIT takes is Spark's to choose."""
    by: list[exp.Expression] = [exp.Ordered(this=exp.column(BE, table="__s"), nulls_first=True)]
    if order is not None:
        by = [_spelled_out(each.copy(), selected) for each in order.expressions]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(BE, table="__s")],
        order=exp.Order(expressions=by),
        over="OVER",
    )
    return window.as_(ROW)


def _spelled_out(ordered: exp.Expression, selected: Sequence[exp.Expression]) -> exp.Expression:
    aliased = {each.alias: each.this for each in selected if isinstance(each, exp.Alias)}
    key = ordered.this
    if isinstance(key, exp.Literal) and not key.is_string and 0 < int(key.this) <= len(selected):
        ordered.set("this", selected[int(key.this) - 1].unalias().copy())
        return ordered
    for column in list(ordered.find_all(exp.Column)):
        if not column.table and column.name in aliased:
            column.replace(exp.Paren(this=aliased[column.name].copy()))
    return ordered


def _group_by_set(tree: exp.Select, selected: Sequence[exp.Expression]) -> None:
    """With the set go its parameters: HAVING and the select list may name them."""
    group = tree.args["group"]
    keys = []
    for each in group.expressions:
        if isinstance(each, exp.Literal) and not each.is_string and 0 < int(each.this) <= len(selected):
            keys.append(selected[int(each.this) - 1].unalias().copy())
        else:
            keys.append(each)
    own = sorted({c.name for c in tree.find_all(exp.Column) if c.table == "__s" and c.name != BE})
    group.set("expressions", [exp.column(name, table="__s") for name in (BE, *own)] + keys)


# --- near and nearest --------------------------------------------------------------------------------------


def _celled(tree: exp.Select) -> Cells | None:
    """The first `near` of WHERE's conjunction whose centre is two parameters: every row of a dataset lies in
    one cell, so that no row comes twice however many cells a set has."""
    where = tree.args.get("where")
    if where is None:
        return None
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        if not (isinstance(part, exp.Anonymous) and part.name.lower() == "near"):
            continue
        latitude, longitude, c, d, km = part.expressions
        if not (isinstance(c, exp.Placeholder) and isinstance(d, exp.Placeholder)):
            continue
        if isinstance(km, exp.Placeholder):
            radius: str | float = km.name
        elif isinstance(km, exp.Literal) and not km.is_string:
            radius = float(km.this)
        else:
            continue
        same = f"cell_of({latitude.sql('spark')}, {longitude.sql('spark')}) = __s.{CELL}"
        where.set("this", exp.And(this=sqlglot.parse_one(same, read="spark"), expression=where.this))
        return Cells(c.name, d.name, radius)
    return None


def _spell_functions(tree: exp.Expression) -> None:
    for call in _calls(tree, "near"):
        arguments = [each.sql("spark") for each in call.expressions]
        call.replace(sqlglot.parse_one(near_sql(*arguments), read="spark"))
    for call in _calls(tree, "nearest"):
        dataset, *rest = call.expressions
        call.replace(
            exp.Anonymous(this=nearest_name(dataset.name), expressions=[each.copy() for each in rest])
        )


def with_cells(statement: Statement, degrees: float) -> str:
    """The statement with cells of that size; `cell_of` is not a function of Spark's."""
    from pipeline.channels.functions import cell_sql

    if statement.cells is None:
        return statement.sql
    tree = sqlglot.parse_one(statement.sql, read="spark")
    for call in _calls(tree, "cell_of"):
        latitude, longitude = (each.sql("spark") for each in call.expressions)
        call.replace(sqlglot.parse_one(cell_sql(latitude, longitude, degrees), read="spark"))
    return str(tree.sql("spark"))
