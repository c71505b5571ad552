"""Which channels need no Spark: continuous ones that only filter one fed dataset and pick columns.

`SELECT columns FROM Dataset WHERE` a conjunction of comparisons of a column with a literal or a parameter,
and of `near`. Types must be the column's own, so that SQL's conversions play no part. What is recognised here
the back end runs as a content filter when rows come (overlay/channels/direct.py); the results are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from grapevine.wire.catalog import CONTINUOUS, Circle, Column, Comparison, Dataset, Direct, Term
from grapevine.wire.parameters import Parameter
from pipeline.channels.rewrite import parsed

OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
WHOLE = ("bigint", "int")
TAKEN = {"string", "double", "boolean", *WHOLE}
PARTS = {"expressions", "from_", "where"}


class _No(Exception):
    """It takes more than a filter."""


def direct(
    sql: str,
    parameters: tuple[Parameter, ...],
    period_s: float,
    new: tuple[str, ...],
    datasets: Mapping[str, Dataset],
) -> Direct | None:
    if period_s != CONTINUOUS or len(new) != 1:
        return None
    try:
        return _Reading(datasets[new[0]], parameters).read(parsed(sql))
    except (_No, KeyError):
        return None


class _Reading:
    def __init__(self, dataset: Dataset, parameters: tuple[Parameter, ...]) -> None:
        self.dataset = dataset
        self.columns = dict(dataset.columns)
        self.types = {parameter.name: parameter.type for parameter in parameters}
        self.names: set[str] = set()  # that the table goes by

    def read(self, tree: exp.Expression) -> Direct:
        if not isinstance(tree, exp.Select) or {k for k, v in tree.args.items() if v} - PARTS:
            raise _No
        table = tree.args["from_"].this
        if not isinstance(table, exp.Table) or table.name != self.dataset.name or self.dataset.key:
            raise _No
        self.names = {"", table.alias_or_name}
        columns = tuple(self._selected(each) for each in tree.expressions)
        comparisons: list[Comparison] = []
        circles: list[Circle] = []
        where = tree.args.get("where")
        whole = where.this.unnest() if where is not None else None
        parts = [] if whole is None else list(whole.flatten()) if isinstance(whole, exp.And) else [whole]
        for part in parts:
            found = self._condition(part.unnest())
            (circles if isinstance(found, Circle) else comparisons).append(found)  # type: ignore[arg-type]
        return Direct(columns, tuple(comparisons), tuple(circles))

    def _selected(self, each: exp.Expression) -> Column:
        inner = each.this if isinstance(each, exp.Alias) else each
        name, kind = self._column(inner)
        return Column(name, each.alias_or_name, kind)

    def _column(self, each: exp.Expression) -> tuple[str, str]:
        if not isinstance(each, exp.Column) or each.table not in self.names:
            raise _No
        kind = self.columns[each.name]
        if kind not in TAKEN:
            raise _No
        return each.name, kind

    def _condition(self, part: exp.Expression) -> Comparison | Circle:
        if isinstance(part, exp.Anonymous) and part.name.lower() == "near" and len(part.expressions) == 5:
            return self._circle(part.expressions)
        operator = OPERATORS.get(type(part))
        if operator is None:
            raise _No
        left, right = part.left.unnest(), part.right.unnest()
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, TURNED[operator]
        name, kind = self._column(left)
        if kind == "boolean" and operator not in ("=", "<>"):
            raise _No
        return Comparison(name, kind, operator, self._term(right, kind))

    def _circle(self, given: list[exp.Expression]) -> Circle:
        (latitude, one), (longitude, other) = self._column(given[0]), self._column(given[1])
        if (one, other) != ("double", "double"):
            raise _No
        return Circle(latitude, longitude, *(self._term(each.unnest(), "double") for each in given[2:]))

    def _term(self, each: exp.Expression, kind: str) -> Term:
        if isinstance(each, exp.Placeholder):
            given = self.types[each.name]
            if given != kind and not (given == "bigint" and kind in WHOLE):
                raise _No
            return Term(parameter=each.name)
        return Term(value=_literal(each, kind))


def _literal(each: exp.Expression, kind: str) -> str | float | int | bool:
    sign = 1
    if isinstance(each, exp.Neg):
        each, sign = each.this, -1
    if isinstance(each, exp.Boolean) and kind == "boolean" and sign == 1:
        return bool(each.this)
    if not isinstance(each, exp.Literal):
        raise _No
    if each.is_string:
        if kind != "string" or sign != 1:
            raise _No
        return str(each.this)
    if kind == "double":
        return sign * float(each.this)
    if kind in WHOLE and str(each.this).isdigit():
        return sign * int(each.this)
    raise _No
