"""What pubctl prints: JSON as the contract, tables for people, and who did not answer."""

from __future__ import annotations

import csv
import io
import json

import pytest

from grapevine import Message
from grapevine.wire import encode_attributes
from grapevine.wire.messages import Publication
from tools.pubctl import attributes
from tools.pubctl.answers import clean, flat, in_tree_order, names
from tools.pubctl.channel import Reply
from tools.pubctl.failure import Failure
from tools.pubctl.invocation import Invocation, duration_s, prepare
from tools.pubctl.output import Column, Result, as_csv, count, emit, size
from tools.pubctl.subscribing import _print
from tools.pubctl.tracing import traced

RESULT = Result(
    [{"name": "b1", "subs": 3, "told": ["b2"]}, {"name": 'b,"2', "subs": None, "told": []}],
    (Column("name"), Column("subs", right=True)),
    {"asked": "b1"},
)


def invocation(**said: object) -> Invocation:
    return Invocation(dict(said), {}, "pubctl.broker.ls/1")


def test_json_has_its_schema_and_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    emit(invocation(output="json"), RESULT)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pubctl.broker.ls/1"
    assert document["asked"] == "b1"
    assert document["rows"][0]["told"] == ["b2"]
    assert "missing" not in document


def test_json_says_who_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    emit(invocation(output="json"), Result([], (), missing=["b3"]))
    assert json.loads(capsys.readouterr().out)["missing"] == ["b3"]


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    emit(invocation(output="jsonl"), RESULT)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["b1", 'b,"2']


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(RESULT))))
    assert rows == [{"name": "b1", "subs": "3"}, {"name": 'b,"2', "subs": ""}]


def test_tables_escape_what_looks_like_markup(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"filter": "a in ('[red]', 'b')"}
    emit(invocation(), Result([row], (Column("filter"),)))
    assert row["filter"] in capsys.readouterr().out


def test_formats_that_a_command_has_not() -> None:
    with pytest.raises(Failure, match="no svg"):
        emit(invocation(output="svg"), RESULT)


def test_numbers_for_people() -> None:
    assert [count(n) for n in (0, 7, 9_999, 12_345, 4_560_000, 2.5)] == [
        *("0", "7", "9999", "12.3 k", "4.56 M", "2.5")
    ]
    assert size(35.5 * 2**20) == "35.5 MB"


def test_durations() -> None:
    assert [duration_s(text) for text in ("2", "2s", "500ms", "1.5m")] == [2, 2, 0.5, 90]
    for wrong in ("", "s", "-1s", "2 weeks", "1e3"):
        with pytest.raises(Failure):
            duration_s(wrong)


def test_a_bare_watch_does_not_eat_the_next_word() -> None:
    assert prepare(["--watch", "status"]) == ["--watch=2s", "status"]
    assert prepare(["sub", "--", "--watch"]) == ["sub", "--", "--watch"]


def test_watch_takes_its_time_as_the_help_writes_it() -> None:
    assert prepare(["status", "--watch", "1s"]) == ["status", "--watch=1s"]
    assert prepare(["--watch", "500ms", "link", "ls"]) == ["--watch=500ms", "link", "ls"]
    assert prepare(["client", "info", "--watch", "5"]) == ["client", "info", "--watch=2s", "5"]
    assert prepare(["status", "--watch", "--watch", "1s"]) == ["status", "--watch=2s", "--watch=1s"]
    assert prepare(["sub", "--watch", "--", "1s"]) == ["sub", "--watch=2s", "--", "1s"]


def test_quiet_is_data_only(capsys: pytest.CaptureFixture[str]) -> None:
    """No head, no rule, no footer: what remains are the rows."""
    result = Result(RESULT.rows, RESULT.columns, footer="2 brokers", title="all of them")
    emit(invocation(quiet=True), result)
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [["b1", "3"], ['b,"2', "-"]]
    assert said.err == ""
    emit(invocation(), result)
    assert "name" in capsys.readouterr().out


def test_the_last_word_counts_then_the_environment() -> None:
    from_environment = Invocation({}, {"PUBCTL_BROKER": "b9", "PUBCTL_TIMEOUT": "300ms"})
    assert (from_environment.broker, from_environment.timeout_s) == ("b9", 0.3)
    assert Invocation({"broker": "b1"}, {"PUBCTL_BROKER": "b9"}).broker == "b1"
    with pytest.raises(Failure, match="PUBCTL_OUTPUT"):
        _ = Invocation({}, {"PUBCTL_OUTPUT": "xml"}).output


# --- what brokers answer ---------------------------------------------------------------------------


def test_ids_become_names() -> None:
    found = [{"id": 0xAB, "name": "b1", "rows": [{"subscription": f"{0xAB:016x}/5.1", "id": "b1/5.1"}]}]
    assert clean(found, names(found)) == [
        {"name": "b1", "rows": [{"subscription": "b1/5.1", "id": "b1/5.1"}]}
    ]


def test_parents_stand_before_their_children() -> None:
    rows = [
        {"name": "b10", "parent": "b2"},
        {"name": "b9", "parent": "b2"},
        {"name": "b2", "parent": "b1"},
        {"name": "b3", "parent": "b1"},
        {"name": "b1", "parent": None},
        {"name": "x", "parent": "y"},
        {"name": "y", "parent": "x"},
    ]
    assert [row["name"] for row in in_tree_order(rows)] == ["b1", "b2", "b9", "b10", "b3", "x", "y"]


def test_rows_carry_their_broker() -> None:
    assert flat([{"name": "b1", "rows": [{"n": 1}]}, {"name": "b2"}]) == [{"broker": "b1", "n": 1}]


def test_a_trace_stands_in_the_order_of_its_path() -> None:
    def row(broker: str, came: str | None, hops: int, to: list[str]) -> dict[str, object]:
        neighbours = [
            {"name": n, "taken": True, "reason": "matched", "count": 0, "subscriptions": []} for n in to
        ]
        return {
            "id": hops,
            "broker": broker,
            "from": came,
            "hops": hops,
            "verdict": "matched",
            "neighbours": neighbours,
            "clients": [],
            "client_count": 1,
        }

    path = [
        row("a", None, 0, ["b", "c"]),
        row("c", "a", 1, []),
        row("b", "a", 1, ["d"]),
        row("d", "b", 2, []),
    ]
    result = traced(Reply("ok", {"path": path, "attributes": {}, "asked": "a"}, ""))
    assert [r["broker"] for r in result.rows] == ["a", "c", "b", "d"]
    assert result.rows[0]["to"] == ["b", "c"]
    assert result.extra["clients"] == 4


# --- attributes ------------------------------------------------------------------------------------


def test_attributes_are_typed_by_how_they_look() -> None:
    words = ["a=1", "b=-2.5", "c=true", "d='1'", "e=YHOO", "f=x=y", "g=", "h='it''s'", "i=1e6", "j=1_0"]
    assert attributes.read(words) == {
        "a": 1,
        "b": -2.5,
        "c": True,
        "d": "1",
        "e": "YHOO",
        "f": "x=y",
        "g": "",
        "h": "it's",
        "i": 1e6,
        "j": "1_0",
    }
    assert isinstance(attributes.read(["a=1"])["a"], int)


@pytest.mark.parametrize("words", [["a"], ["=1"], ["a=1", "a=2"], ["a=nan"]])
def test_words_that_are_no_attributes(words: list[str]) -> None:
    with pytest.raises(Failure):
        attributes.read(words)


@pytest.mark.parametrize("word", ["a=inf", "a=-Infinity", "a=NaN", "a=1e999", "a=9223372036854775808"])
def test_numbers_that_no_publication_carries_are_refused_by_name(word: str) -> None:
    with pytest.raises(Failure, match=r"^a=.*\"a='.*'\" is a string") as caught:
        attributes.read([word])
    assert caught.value.code == 2
    text = word.partition("=")[2]
    assert attributes.read([f"a='{text}'"]) == {"a": text}, "as it advises"


def test_what_looks_like_a_number_to_python_only_is_a_string() -> None:
    words = [
        "hex=0x10",
        "grouped=1_000",
        "arabic=\u0661",
        "edge=9223372036854775807",
        "least=-9223372036854775808",
    ]
    assert attributes.read(words) == {
        "hex": "0x10",
        "grouped": "1_000",
        "arabic": "\u0661",
        "edge": 2**63 - 1,
        "least": -(2**63),
    }


@pytest.mark.parametrize("output", ["json", "jsonl", "csv"])
def test_no_value_becomes_null(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no infinity; a client may publish one all the same."""
    packed = encode_attributes({"up": float("inf"), "down": float("-inf"), "n": 1.5})
    publication = Publication(packed, b"", 1, 0, 7, 1, 0.0)
    _print(invocation(output=output), Message(publication, b"", {7: ("p", "b1")}))
    said = capsys.readouterr().out
    assert "null" not in said
    assert "inf" in said and "-inf" in said


def test_a_filter_that_says_exactly_these_attributes() -> None:
    from grapevine.filters import parse
    from grapevine.filters.evaluate import matches

    content = attributes.read(["class=STOCK", "price=1.5", "halted=false", "odd name=it's"])
    filter = parse(attributes.equals_all(content))
    assert matches(filter, content)
    assert not matches(filter, {**content, "price": 1.6})
