"""Channel files: what is read, and every mistake at once with its line and column."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("sqlglot", reason="needs the extra `spark`")

from grapevine.wire.catalog import CONTINUOUS, Dataset
from grapevine.wire.parameters import Parameter
from pipeline.channels.files import FileMistakes, read_file, read_text

GOOD = '''
[dataset.EmergencyReports]
filter = "class = 'report'"
columns = "id string, type string, lat double, lon double, text string"
keep = "1h"
[dataset.UserLocations]
filter = "class = 'location'"
columns = "user string, lat double, lon double"
key = ["user"]
keep = "10m"
[dataset.Shelters]
file = "shelters.csv"

[channel.EmergenciesNear]
period = "10s"
new = "EmergencyReports"
parameters.type = "string"
parameters.lat = { type = "double", snap = 0.01 }
parameters.lon = { type = "double", snap = 0.01 }
parameters.km = { type = "double", default = 2, min = 0, max = 50 }
sql = """SELECT r.id, r.type, nearest(Shelters, r.lat, r.lon, 3) AS shelters
         FROM EmergencyReports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)"""
keep = "1d"
[channel.Live]
period = "continuous"
new = ["EmergencyReports"]
sql = "SELECT r.id FROM EmergencyReports r JOIN EmergencyReports_all a ON a.id = r.id"
'''


def test_the_example_is_read() -> None:
    found = read_text(GOOD, "e.toml", {})
    columns = (("user", "string"), ("lat", "double"), ("lon", "double"))
    assert found.datasets["UserLocations"] == Dataset(
        "UserLocations", "class = 'location'", columns, ("user",), 600
    )
    assert found.datasets["Shelters"] == Dataset("Shelters", file="shelters.csv")
    near = found.channels["EmergenciesNear"]
    assert (near.period_s, near.new, near.keep_s, near.version) == (10, ("EmergencyReports",), 86_400, 1)
    assert near.parameters == (
        Parameter("type", "string"),
        Parameter("lat", "double", snap=0.01),
        Parameter("lon", "double", snap=0.01),
        Parameter("km", "double", default=2, minimum=0, maximum=50),
    )
    assert found.channels["Live"].period_s == CONTINUOUS
    assert near.same_as(msgspec.structs.replace(near, version=7))


def test_all_mistakes_at_once_with_their_places() -> None:
    bad = '''[dataset.Reports]
filter = "class = "
columns = "id string, lat dubble, lon"
keep = "soon"
[dataset.Users]
filter = "class = 'u'"
columns = "user string"
key = ["usr"]
[channel.Near]
period = "0.5s"
new = "Report"
parameters = { type = "string", lat = "double", km = { type = "double", default = "x" }, odd = { tpe = 1 } }
sql = """SELECT r.id
         FROM Reprots r WHERE r.type = :tipe AND r.lat = :lat AND r.km < :km"""
[channel.Broken]
period = "10s"
sql = "SELECT a FROM Reports WHERE )"
[chanel.X]
'''
    with pytest.raises(FileMistakes) as caught:
        read_text(bad, "bad.toml", {})
    said = [str(each) for each in caught.value.found]
    for begin, part in (
        ("bad.toml:2:", "dataset.Reports.filter"),
        ("bad.toml:3:23:", "'dubble' is not one of"),
        ("bad.toml:3:", "'lon' is not a name and a type"),
        ("bad.toml:4:1:", "'soon' is not a time"),
        ("bad.toml:8:1:", "no column 'usr'; did you mean user?"),
        ("bad.toml:10:1:", "below 1s"),
        ("bad.toml:11:1:", "'Report' is not a dataset that is fed; did you mean Reports?"),
        ("bad.toml:12:16:", "is declared and not used"),
        ("bad.toml:12:49:", "default is x, not a number"),
        ("bad.toml:12:90:", "has no type"),
        ("bad.toml:14:15:", "no dataset 'Reprots'; did you mean Reports?"),
        ("bad.toml:14:40:", "parameter :tipe is not declared; did you mean type?"),
        ("bad.toml:17:36:", "channel.Broken.sql"),
        ("bad.toml:18:1:", "did you mean channel?"),
    ):
        assert any(each.startswith(begin) and part in each for each in said), (begin, part, said)
    assert len(said) == 14, said


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DROP TABLE x", "a channel is one SELECT"),
        ("SELECT 1; SELECT 2", "a channel is one SELECT"),
        ("SELECT id FROM R WHERE id = ?", "write :name"),
        ("SELECT 'id FROM R", "does not end"),
        ("SELECT near(lat, lon, 1, 2) FROM R", "near(latitude"),
        ("SELECT nearest(R, lat, lon, 3) FROM R", "nearest needs a dataset from a file"),
        ("SELECT nearest(S, lat) FROM R", "nearest(Dataset"),
        ("SELECT __p_x FROM R", "are taken"),
    ],
)
def test_a_query_that_is_none(sql: str, said: str) -> None:
    text = (
        f'[dataset.R]\nfilter = "a = 1"\ncolumns = "id string"\n[channel.C]\nperiod = "1s"\nsql = "{sql}"\n'
    )
    with pytest.raises(FileMistakes) as caught:
        read_text(text, "f.toml", {})
    assert str(caught.value).startswith("f.toml:6:") and said in str(caught.value)
    assert len(caught.value.found) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[dataset.R\n", "f.toml:1:11: "),
        ('[dataset.R]\nfile = "a.csv"\nkey = ["a"]\n', "f.toml:3:1: dataset.R.key"),
        ("[dataset.R]\n", "either a filter"),
        ('[dataset.1R]\nfile = "a"\n', "a name is a letter"),
        ('[channel.C]\nsql = "SELECT 1 AS one FROM S"\n', "has no period"),
        ('[channel.C]\nperiod = "continuous"\nsql = "SELECT 1 AS one"\n', "continuous needs `new`"),
        ('[channel.C]\nperiod = "1s"\nsqll = "SELECT 1 AS one"\n', "did you mean sql?"),
    ],
)
def test_one_mistake(text: str, said: str) -> None:
    with pytest.raises(FileMistakes) as caught:
        read_text(text, "f.toml", {})
    assert said in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileMistakes, match=r"1:1: cannot be read: No such file"):
        read_file(tmp_path / "none.toml")


def test_names_numbers_and_files_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("lat,lon\n")
    bad = """[dataset.Reports]
filter = "class = 'r'"
columns = "id bigint, __x string, ID bigint, lat double"
[dataset.reports]
filter = "class = 'r'"
columns = "id bigint"
[dataset.Reports_all]
filter = "class = 'r'"
columns = "id bigint"
[dataset.Five]
file = 5
[dataset.Gone]
file = "gone.csv"
[dataset.Here]
file = "there.csv"
[dataset.'od d']
file = "there.csv"
[channel.Near]
period = "10s"
new = "Reports"
parameters.type = "string"
parameters."lat" = { type = "dubble" }
parameters.Type = "string"
parameters.from = "string"
parameters.at = { type = "timestamp", min = 2026-01-02, max = 2026-01-01 }
sql = "SELECT r.id AS __be, 'a__p_b' FROM Reports r WHERE :type = :Type AND :lat > 1 AND r.at > :at"
keep = "999999999999999999999d"
[channel.Here]
period = "1s"
sql = "SELECT id FROM Reports"
"""
    with pytest.raises(FileMistakes) as caught:
        read_text(bad, "bad.toml", {}, tmp_path)
    said = [str(each) for each in caught.value.found]
    for begin, part in (
        ("bad.toml:3:23:", "names that begin with __ are taken"),
        ("bad.toml:3:35:", "column 'ID' is there already"),
        ("bad.toml:4:1:", "there is Reports already"),
        ("bad.toml:7:1:", "means all rows of NAME"),
        ("bad.toml:11:1:", "is not the name of a file"),
        ("bad.toml:13:1:", "gone.csv is not there"),
        ("bad.toml:16:1:", "a name is a letter"),
        ("bad.toml:22:1:", "'dubble' is not one of"),
        ("bad.toml:23:1:", "there is type already"),
        ("bad.toml:24:1:", "is a word of SQL"),
        ("bad.toml:24:1:", "is declared and not used"),
        ("bad.toml:25:1:", "min is above max"),
        ("bad.toml:26:23:", "names that begin with __ are taken"),
        ("bad.toml:27:1:", "more than ten years"),
        ("bad.toml:28:1:", "there is Here already"),
    ):
        assert any(each.startswith(begin) and part in each for each in said), (begin, part, said)
    assert len(said) == 15, said
    good = read_text('[dataset.Here]\nfile = "there.csv"\n', "good.toml", {}, tmp_path)
    assert good.datasets["Here"].file == str(tmp_path / "there.csv")
