"""The language as its guide tells it: what each text means, what is wrong with the others, and the limits."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time

import pytest

from grapevine import errors
from grapevine.filters import (
    EVERYTHING,
    NOTHING,
    FilterError,
    Op,
    Value,
    identity,
    limits,
    matches,
    parse,
    to_text,
)

STOCK: dict[str, Value] = {
    "class": "STOCK",
    "symbol": "YHOO",
    "volume": 2_000_000,
    "close": 12.5,
    "halted": False,
    "openClose%Diff": 0.06,
    "two words": "it's",
    "lat": 51.5,
    "lon": -0.1,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "class = 'STOCK' and symbol prefix 'YH' and (volume > 1e6 or close between 10 and 20)"
            " and not halted",
            True,
        ),
        ("class = 'STOCK' and symbol = 'MSFT'", False),
        ("class != 'BOND'", True),
        ("volume < 2000000", False),
        ("volume <= 2000000", True),
        ("volume >= 2e6", True),
        ("close between 12.5 and 12.5", True),
        ("symbol in ('MSFT', 'YHOO')", True),
        ("symbol suffix 'OO' and symbol contains 'HO'", True),
        ("exists volume", True),
        ("exists nothing", False),
        ("not exists nothing", True),
        ("halted", False),
        ("not halted", True),
        ("openClose%Diff > 0.05", True),
        ("\"two words\" = 'it''s'", True),
        ("CLASS = 'STOCK'", False),
        ("class = 'STOCK' AND Not Halted", False),
        ("class = 'STOCK' AND NOT halted OR false", True),
        ("symbol > 'YHO' and symbol < 'YHP'", True),
        ("true", True),
        ("false", False),
        ("halted = 0", False),
        ("close = '12.5'", False),
        ("close != '12.5'", False),
        ("within(lat, lon, box(50, -1, 52, 1))", True),
        ("within(lat, lon, circle(51.5, 0, 10))", True),
        ("circle(51.5, 0, 10)", True),
        ("circle(51.5, 0, 6)", False),
        ("not circle(51.5, 0, 6)", True),
        ("box(50, 170, 52, -170)", False),
        ("[class,eq,'STOCK'],[volume,>,1000000]", True),
        ("[class,=, 'STOCK'], [openClose%Diff, >, 0.025]", True),
        (
            "[class,eq,STOCK],[symbol,str-prefix,'YH'],[symbol,str-postfix,'OO'],[symbol,str-contains,'H']",
            True,
        ),
        ("[volume,isPresent,0],[symbol,neq,'MSFT'],[halted,eq,false]", True),
        ("[nothing,isPresent,'']", False),
        ("[nothing,isPresent]", False),
    ],
)
def test_what_a_text_means(text: str, expected: bool) -> None:
    assert matches(parse(text), STOCK) is expected


@pytest.mark.parametrize(
    "text", ["a > 5", "a != 5", "a = 5", "a in (5)", "a prefix 'x'", "not a > 5", "not a = 5", "a", "not a"]
)
def test_a_missing_attribute_and_one_of_another_type_are_false(text: str) -> None:
    assert not matches(parse(text), {})
    other: Value = 5 if "'" in text or text in ("a", "not a") else "5"
    assert not matches(parse(text), {"a": other})


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("not a > 5", "a <= 5"),
        ("not a = 5", "a != 5"),
        ("not (a = 1 and b = 2)", "a != 1 or b != 2"),
        ("not a between 1 and 2", "a < 1 or a > 2"),
        ("not a in (1, 2)", "a != 1 and a != 2"),
        ("not not a prefix 'x'", "a prefix 'x'"),
        ("not a", "a = false"),
        ("a != true", "a = false"),
        ("a", "a = true"),
        ("a = 1 or a = 2 or a = 3", "a in (3, 1, 2, 1.0)"),
        ("a = 1e6", "a = 1000000"),
        ("a = -0.0", "a = 0"),
        ("a > 1 and a > 2 and a <= 9 and a < 12", "a > 2 and a <= 9"),
        ("a >= 5 and a <= 5", "a = 5"),
        ("a >= 5 and a != 5", "a > 5"),
        ("a > 5 and a != 3", "a > 5"),
        ("a = 5 and a > 3 and exists a and a != 4", "a = 5"),
        ("a = 5 and a > 7", "false"),
        ("a = 5 and a = 6", "false"),
        ("a = 5 and a = 'x'", "false"),
        ("a > 5 and a < 5", "false"),
        ("a > 5 and a prefix 'x'", "false"),
        ("exists a and not exists a", "false"),
        ("a in (1, 2, 3) and a > 1", "a in (2, 3)"),
        ("a in (1, 2, 3) and a in (3, 4)", "a = 3"),
        ("a prefix 'x' and a prefix 'xy' and a contains 'y'", "a prefix 'xy'"),
        ("a prefix 'x' and a prefix 'y'", "false"),
        ("a prefix 'xy' and not a prefix 'x'", "false"),
        ("a prefix 'xy' and not a contains 'y'", "false"),
        ("a prefix 'x' and a suffix 'y' and not a suffix 'y'", "false"),
        ("a prefix 'x' and not a prefix 'y' and not a prefix 'xy'", "a prefix 'x' and not a prefix 'xy'"),
        ("b = 1 or (b = 1 and a = 2)", "b = 1"),
        ("b = 1 or true", "true"),
        ("(a or b) and (a or c)", "a or (b and c)"),
        ("a < 1e999", "not a >= 1e999"),
        ("a contains ''", "a prefix ''"),
        ("[a,eq,1],[b,<>,2]", "a = 1 and b != 2"),
        ("box(1, 2, 3, 4)", "lat between 1 and 3 and lon between 2 and 4"),
        (
            "box(1, 170, 3, -170)",
            "lat between 1 and 3 and (lon between 170 and 180 or lon between -180 and -170)",
        ),
    ],
)
def test_equal_meaning_equal_form(text: str, same: str) -> None:
    assert identity(parse(text)) == identity(parse(same))


def test_true_and_false_are_the_two_constants() -> None:
    assert parse("true") == EVERYTHING and parse("false") == NOTHING
    assert to_text(EVERYTHING) == "true" and to_text(NOTHING) == "false"


def test_one_is_not_true() -> None:
    assert identity(parse("a = 1")) != identity(parse("a = true"))
    assert len(parse("a = 1 or a = true").conjunctions[0][0].operand) == 2  # type: ignore[arg-type]


def test_numbers_compare_exactly() -> None:
    odd = 2**53 + 1
    assert matches(parse(f"a = {odd}"), {"a": odd})
    assert not matches(parse(f"a = {odd}"), {"a": float(odd)})
    assert matches(parse(f"a < {odd}"), {"a": float(odd)})
    assert matches(parse("a > 9223372036854775806.0"), {"a": 1e300})


def test_a_circle_is_ranges_and_an_exact_check() -> None:
    (conjunction,) = parse("within(lat, lon, circle(51.5, -0.1, 10))").conjunctions
    assert [(predicate.attribute, predicate.op) for predicate in conjunction] == [
        ("lat", Op.RANGE),
        ("lat", Op.IN_CIRCLE),
        ("lon", Op.RANGE),
    ]
    west, east = parse("circle(-18, 179.9, 100)").conjunctions
    assert west[2].operand[0] == -180 and east[2].operand[1] == 180  # type: ignore[index]


@pytest.mark.parametrize("km", ["20100", "1e308", "1.7976931348623157e308"])
def test_a_circle_larger_than_the_earth_holds_every_position(km: str) -> None:
    form = parse(f"circle(0, 0, {km})")
    assert matches(form, {"lat": 0, "lon": 180}) and matches(form, {"lat": -90, "lon": 0})
    assert identity(parse(to_text(form))) == identity(form)


def test_keywords_are_of_the_letters_a_to_z() -> None:
    """Python's `re.IGNORECASE` takes a dotless i and a long s for an i and an s."""
    assert matches(parse("\u0131n = 1 and fal\u017fe = 2"), {"\u0131n": 1, "fal\u017fe": 2})
    for text in ("a conta\u0131ns 'x'", "a \u017fuffix 'x'", "a \u0131n (1)"):
        with pytest.raises(FilterError, match="expected an operator"):
            parse(text)
    assert matches(parse("A CONTAINS 'x' oR eXists b"), {"A": "axa"})


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a>1 and a<=2", "a > 1 and a <= 2"),
        ("a between 1 and 2", "a between 1 and 2"),
        ("(a = 1 and b = 'it''s') or exists \"in\"", "(a = 1 and b = 'it''s') or exists \"in\""),
        ("not a prefix 'x' and not exists \"1e6\"", "not exists \"1e6\" and not a prefix 'x'"),
        ("not circle(1, 2, 3.5)", "not within(lat, lon, circle(1, 2, 3.5))"),
        ("a in ('x', 2, true)", "a in (true, 2, 'x')"),
        ("a >= -1e999", "a >= -1e999"),
    ],
)
def test_printing(text: str, printed: str) -> None:
    assert to_text(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected a condition, found the end"),
        ("class = STOCK", 8, "found STOCK (strings stand in single quotes)"),
        ('class = "STOCK"', 8, 'found "STOCK" (strings stand in single quotes)'),
        ("class = ", 8, "expected a value (a number, a 'string', true or false), found the end"),
        ("class = and", 8, "expected a value (a number, a 'string', true or false), found and"),
        ("class = 'STOCK", 8, "this string has no end"),
        ('"class = 5', 0, "this quoted name has no end"),
        ("a = 1 b = 2", 6, "expected 'and', 'or' or the end, found b"),
        ("a == 1", 3, "expected a value"),
        ("a & b", 2, "found &"),
        ("(a = 1", 6, "')'"),
        ("a = 1)", 5, "found )"),
        ("a between 1 or 2", 12, "expected 'and', found or"),
        ("a between 1 and 'x'", 16, "two numbers or two strings"),
        ("a between true and false", 10, "have no order"),
        ("a < true", 4, "have no order"),
        ("a in ()", 6, "expected a value"),
        ("a in (1, b)", 9, "expected a value"),
        ("a prefix 5", 9, "expected a 'string', found 5"),
        ("exists 5", 7, "expected an attribute name, found 5"),
        ("not", 3, "expected a condition"),
        ("in = 5", 0, "expected a condition, found in"),
        ("a = 9223372036854775808", 4, "64 bits"),
        ("a = nan", 4, "expected a value"),
        ('"" = 5', 0, "name is empty"),
        ("within(lat, lat, box(1, 2, 3, 4))", 12, "two attributes"),
        ("within(lat, lon, 5)", 17, "box(south, west, north, east)"),
        ("circle(91, 0, 1)", 7, "between -90 and 90"),
        ("circle(0, 181, 1)", 10, "between -180 and 180"),
        ("circle(0, 0, -1)", 13, "not negative"),
        ("circle(0, 0, 1e999)", 13, "kilometres"),
        ("box(3, 0, 1, 0)", 4, "north"),
        ("[a,foo,1]", 3, "no such operator: foo"),
        ("[a,eq]", 5, "eq needs a value"),
        ("[a,str-prefix,5]", 14, "needs a string"),
        ("[a,<,true]", 5, "have no order"),
        ("[a,eq,1]]", 8, "found ]"),
        ("[a,eq,1] and b", 9, "found and"),
        ("a = '\ud800'", 4, "surrogate"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(text: str, position: int, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.position == position
    assert caught.value.text == text


def test_an_error_shows_the_place() -> None:
    with pytest.raises(FilterError) as caught:
        parse("class = 'STOCK' and\n  volume >> 5")
    assert str(caught.value).splitlines()[-2:] == ["    volume >> 5", "            ^"]
    assert caught.value.expected == ("a value (a number, a 'string', true or false)",)


def test_an_error_far_inside_a_long_text_shows_what_is_around() -> None:
    with pytest.raises(FilterError) as caught:
        parse(" and ".join(f"a{n} = 1" for n in range(50)) + " and ! and b")
    line, mark = str(caught.value).splitlines()[-2:]
    assert line[mark.index("^")] == "!" and len(line) < 100


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (" " * (limits.TEXT_CHARS + 1), "TEXT_CHARS"),
        ("not " * (limits.NESTING + 1) + "a", "NESTING"),
        (" or ".join(f"a{n}" for n in range(limits.CONJUNCTIONS + 1)), "CONJUNCTIONS"),
        (" and ".join(f"a{n}" for n in range(limits.PREDICATES + 1)), "PREDICATES"),
        (f"a in ({', '.join(map(str, range(limits.IN_VALUES + 1)))})", "IN_VALUES"),
        (" or ".join(f"a = {n}" for n in range(limits.IN_VALUES + 1)), "IN_VALUES"),
        (f"a = '{'x' * (limits.STRING_CHARS + 1)}'", "STRING_CHARS"),
        (f"{'x' * (limits.NAME_CHARS + 1)} = 1", "NAME_CHARS"),
        (" and ".join(f"a{n} = '{'x' * 1000}'" for n in range(20)), "FILTER_SIZE"),
        (" and ".join("a" for n in range(limits.JOINED + 1)), "JOINED"),
        (" and ".join(f"(a{n} or b{n})" for n in range(20)), "CONJUNCTIONS"),
    ],
)
def test_each_limit_is_named(text: str, limit: str) -> None:
    with pytest.raises(FilterError, match=f"\\({limit}\\)"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(f"a{n}" for n in range(limits.CONJUNCTIONS)),
        " and ".join(f"a{n}" for n in range(limits.PREDICATES)),
        f"a in ({', '.join(map(str, range(limits.IN_VALUES)))})",
        f"a = '{'x' * limits.STRING_CHARS}'",
        f"{'x' * limits.NAME_CHARS} = 1",
        "(" * 5_000 + "a" + ")" * 5_000,
    ],
)
def test_what_is_just_within_the_limits_is_read(text: str) -> None:
    assert identity(parse(to_text(parse(text)))) == identity(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        " and ".join(f"(a{n} or b{n} or c{n})" for n in range(2_000)),
        " and ".join(f"(a = {n} or a = {n + 1} or b{n % 7} = {n})" for n in range(1_000)),
        " and ".join(f"a contains '{n}'" for n in range(1_000)),
        " or ".join(f"(a{n} = 1 and b{n} = 2)" for n in range(1_500)),
        "(" + " or ".join(f"a > {n} and b < {n}" for n in range(60)) + ") and not (a = 1 and b = 2 and c)",
        " and ".join(["(" + " or ".join(f"a{n} = {m}" for n in range(60)) + ")" for m in range(60)]),
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """Bounded while it expands: refused or read, in about the time of its letters."""
    parse("warm = 'up'")
    begin = time.process_time()
    try:
        parse(text)
    except FilterError:
        pass
    assert time.process_time() - begin < 5


def test_errors_are_one_tree_and_survive_pickling() -> None:
    for error in (
        FilterError("m", 3, ("x",), "text"),
        errors.Undelivered([(1, 2), (4, 4)]),
        errors.Timeout("late"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert isinstance(error, errors.Error)
        assert (type(copy), copy.args, str(copy)) == (type(error), error.args, str(error))
    assert issubclass(FilterError, ValueError) and issubclass(errors.Timeout, TimeoutError)
    assert str(errors.Undelivered([(1, 2), (4, 4)])) == "3 publications not delivered everywhere: 1-2, 4"


def test_lark_is_not_imported_before_the_first_text() -> None:
    state = "print('lark' in sys.modules)"
    code = f"import sys, grapevine.filters as filters; {state}; filters.parse('b'); {state}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
