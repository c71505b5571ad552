"""Columns to attributes and payload, from words and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.ingest import Wanted, look
from pipeline.mapping import Attribute, Payload, from_file, from_words, suggested
from pipeline.shaping import planned
from pipeline.source import Source, opened
from pipeline.trouble import NOT_FOUND, USAGE, Trouble


def test_words() -> None:
    mapping = from_words(
        "symbol, price=close, volume:int, size=volume:number, class='a, b''s: c=d'", "json:a, b"
    )
    assert mapping.attributes == [
        Attribute("symbol", "symbol"),
        Attribute("price", "close"),
        Attribute("volume", "volume", "int"),
        Attribute("size", "volume", "number"),
        Attribute("class", value="a, b's: c=d"),
    ]
    assert mapping.payload == Payload(columns=["a", "b"])
    assert mapping.columns() == ["symbol", "close", "volume", "a", "b"]
    assert from_words("", "").attributes == from_words("*", "").attributes == []
    assert from_words("a:b", "raw").attributes == [Attribute("a:b", "a:b")]  # no type of ours: part of a name


@pytest.mark.parametrize(
    ("words", "said"),
    [("a, a", "twice"), ("'x'", "without a name"), ("a='x", "not understood"), ("=a", "name")],
)
def test_wrong_words(words: str, said: str) -> None:
    with pytest.raises(Trouble, match=said) as error:
        from_words(words, "")
    assert error.value.code == USAGE


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(
        "[attributes]\nsymbol = 'symbol'\nclass = \"'STOCK'\"\n"
        "price = { column = 'close', type = 'number' }\n"
        "weight = { value = 1.5 }\nflag = true\n[payload]\ncolumns = ['open']\n[time]\ncolumn = 'date'\n"
    )
    mapping = from_file(path)
    assert mapping.attributes == [
        Attribute("symbol", "symbol"),
        Attribute("class", value="STOCK"),
        Attribute("price", "close", "number"),
        Attribute("weight", value=1.5),
        Attribute("flag", value=True),
    ]
    assert (mapping.payload.columns, mapping.time.column) == (["open"], "date")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[attribute]\na = 'a'", "attribute: unknown"),
        ("[attributes]\na = {}", "give a column or a value"),
        ("[attributes]\na = { column = 'a', kind = 'int' }", "kind"),
        ("[attributes]\na = { column = 'a', type = 'date' }", "date"),
        ("[attributes", "not TOML"),
        ("[payload]\ncolumn = 'a'\ncolumns = ['b']", "not both"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(text)
    with pytest.raises(Trouble, match=said) as error:
        from_file(path)
    assert error.value.code == USAGE
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["1", "-20", ""], "int"),
        (["1", "2.5", "1e3", ".5"], "number"),
        (["True", "false"], "bool"),
        (["1", "x"], "string"),
        (["007", "12"], "string"),  # an identifier would lose its zeros
        (["0", "0.5"], "number"),
        (["12345678901234567890"], "number"),
        (["", ""], "string"),
        (["2004-01-01"], "string"),
    ],
)
def test_the_type_that_values_suggest(values: list[str], type: str) -> None:
    assert suggested(values) == type


def test_csv_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text('symbol,volume,"the close"\nYHOO,100,1.5\n"A,B",200,2\n')
    source = opened(str(path))
    assert source.kinds == {"symbol": "string", "volume": "int", "the close": "number"}
    assert source.header == 'symbol,volume,"the close"'


def test_json_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"a": 1, "b": [1], "c": "x", "d": true, "e": 1}\n{"a": 2, "e": 2.5, "c": 7}\n{"half')
    assert opened(str(path)).kinds == {"a": "int", "b": "nested", "c": "string", "d": "bool", "e": "number"}


def test_what_is_not_there(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "no.csv", NOT_FOUND), (tmp_path, NOT_FOUND)):
        with pytest.raises(Trouble) as error:
            opened(str(path))
        assert error.value.code == code
    (tmp_path / "x.dat").write_text("1")
    with pytest.raises(Trouble, match="--format"):
        opened(str(tmp_path / "x.dat"))
    (tmp_path / "x.csv").write_text("a,a\n1,2\n")
    with pytest.raises(Trouble, match="two columns are called a"):
        opened(str(tmp_path / "x.csv"))


def source(**kinds: str) -> Source:
    return Source("quotes.csv", "csv", ["quotes.csv"], kinds)


def test_a_missing_column_is_told_with_the_nearest() -> None:
    with pytest.raises(Trouble, match=r"quotes.csv: no column volum: did you mean volume\?") as error:
        planned(source(volume="int", symbol="string"), from_words("volum", ""))
    assert error.value.code == USAGE
    with pytest.raises(Trouble, match="there are a"):
        planned(source(a="int"), from_words("", "zzzz"))


def test_a_type_that_can_be_no_attribute_is_told_with_advice() -> None:
    with pytest.raises(Trouble, match=r"column t is timestamp.*t:string or t:number") as error:
        planned(source(t="timestamp"), from_words("", ""))
    assert error.value.code == USAGE
    with pytest.raises(Trouble, match="column tags is nested"):
        planned(source(tags="nested", a="int"), from_words("tags", ""))
    assert planned(source(t="timestamp"), from_words("t:string", ""))[0].type == "string"
    assert [a.name for a in planned(source(a="int", raw="string"), from_words("", "raw"))] == ["a"]


def test_files_of_one_source_have_the_same_first_line(tmp_path: Path) -> None:
    """But for the mark that some programs put before it, and how they end it; an empty file is no harm."""
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "b.csv").write_bytes("\ufeffa,b\r\n3,4\r\n".encode())
    (tmp_path / "c.csv").write_bytes(b"")
    found = opened(str(tmp_path))
    assert (found.header, found.kinds) == ("a,b", {"a": "int", "b": "int"})
    (tmp_path / "d.csv").write_bytes(b"b,a\n1,2\n")
    with pytest.raises(Trouble, match=r"d\.csv: its first line names other columns") as error:
        opened(str(tmp_path))
    assert error.value.code == USAGE


def test_a_json_key_beyond_the_first_lines_needs_its_type() -> None:
    found = Source("a.json", "json", ["a.json"], {"a": "int"})
    assert [one.type for one in planned(found, from_words("a, late:bool", ""))] == ["int", "bool"]
    with pytest.raises(Trouble, match="no column other"):
        planned(found, from_words("a, other", ""))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"a,b\n1\r2,3\n", "new-line character"),
        ("a.csv", "a\nM\u00fcller\n".encode("latin-1"), "not UTF-8 text"),
        ("a.json", "{'a': 'M\u00fcller'}\n".encode("latin-1"), "not UTF-8 text"),
        ("a.json.gz", b"no gzip", "Not a gzipped file"),
        ("a.csv", b"a,A\n1,2\n", "columns a and A differ in case only"),
        ("a.json", b'{"_broken": 1}\n', "cannot be called _broken"),
        ("a.json", b'{"a": 1, "": 2}\n', "rename it"),
        ("a.json", b'{"_payload": 1}\n', "cannot be called _payload"),
    ],
)
def test_what_cannot_be_read_or_named_is_told(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Trouble, match=says) as error:
        look(Wanted(str(path), "tcp://127.0.0.1:1"))
    assert str(error.value).startswith(str(path))


def test_files_of_parquet_have_the_same_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for name, row in (("a", {"a": 1}), ("b", {"a": 2}), ("c", {"a": 3, "more": 4})):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{name}.parquet")
    with pytest.raises(Trouble, match=r"c\.parquet: its column more is not as in .*a\.parquet") as error:
        opened(str(tmp_path))
    assert error.value.code == USAGE
    (tmp_path / "c.parquet").unlink()
    assert opened(str(tmp_path)).kinds == {"a": "int"}


def test_what_spark_cannot_unpack_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv.xz").write_bytes(b"\xfd7zXZ")
    with pytest.raises(Trouble, match="unpack it first"):
        opened(str(tmp_path / "a.csv.xz"))
