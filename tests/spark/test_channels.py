"""Channels end to end: real daemons, a real driver, real Spark; results against the query run for one set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import grapevine
from grapevine.client.session.driving import Execute
from grapevine.wire import encode_attributes
from grapevine.wire.driving import FedRow, Plan, rows_of
from grapevine.wire.parameters import canonical, take_set
from pipeline.channels.checking import complaints, explained, place_of
from pipeline.channels.execution import Executor
from pipeline.channels.files import read_text
from pipeline.channels.once import run_once
from pipeline.channels.tables import Tables
from tests.spark.channels import FILE, SHELTERS, Cluster, collect

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("channels"), "edge") as found:
        found.create()
        found.start_driver()
        yield found


def plain(rows: list[Any]) -> list[Any]:
    return sorted(map(repr, rows))


def test_results_are_those_of_one_query_for_each_set(cluster: Cluster, spark: Any) -> None:
    chance = random.Random(5)
    definitions = read_text(FILE, "channels.toml", {})
    datasets = dict(definitions.datasets)
    shelters = cluster.directory / "shelters.csv"
    datasets["Shelters"] = type(datasets["Shelters"])("Shelters", file=str(shelters))
    near = [
        {"type": kind, "lat": 60 + n / 10, "lon": 24.1, "km": 15}
        for n, kind in enumerate(("fire", "ems", "it's"))
    ]
    with (
        cluster.client("edge", "pub") as publisher,
        cluster.client("edge", "ann") as ann,
        cluster.client("back", "bob") as bob,
        cluster.client("back") as asking,
    ):
        subscriptions = [(ann.subscribe_channel("Near", given, timeout=60), "Near", given) for given in near]
        subscriptions.append((bob.subscribe_channel("Near", near[0], timeout=60), "Near", near[0]))
        subscriptions.append((bob.subscribe_channel("Live", {"low": -5}, timeout=60), "Live", {"low": -5}))
        subscriptions.append((bob.subscribe_channel("Direct", {"low": 9}, timeout=60), "Direct", {"low": 9}))
        subscriptions.append(
            (ann.subscribe_channel("NearMe", {"user": "ann"}, timeout=60), "NearMe", {"user": "ann"})
        )
        publisher.publish({"class": "location", "user": "ann", "lat": 60.1, "lon": 24.1})
        publisher.flush(timeout=60)
        for number in range(150):
            publisher.publish(
                {
                    "class": "report",
                    "id": number - 20,
                    "type": chance.choice(("fire", "ems", "it's")),
                    "lat": 60 + chance.random() / 4,
                    "lon": 24 + chance.random() / 4,
                }
            )
            if number % 50 == 49:
                publisher.flush(timeout=60)
        for results, name, given in subscriptions:
            wanted = run_once(asking, spark, definitions.channels[name], datasets, given)
            found = collect(results, len(wanted), 400)
            assert plain([result.row for result in found]) == plain(wanted), (name, given)
            assert wanted, "a case without results shows nothing"
            positions = [result.position for result in found]
            assert positions == sorted(set(positions))
    listed = {row["name"]: row for row in cluster.pubctl("channel", "ls", at="edge")["rows"]}
    assert listed["Near"]["back_end"] == 3, "equal sets at two brokers are one"
    assert listed["Near"]["state"] == "ready" and listed["Direct"]["direct"]


def test_who_walks_into_an_old_emergency_is_told_and_who_walks_out(cluster: Cluster) -> None:
    """Without `new` the changes of the result are delivered, also by a driver that has just started."""
    with cluster.client("edge", "pub2") as publisher, cluster.client("edge", "dan") as dan:

        def walk(lat: float) -> None:
            publisher.publish({"class": "location", "user": "dan", "lat": lat, "lon": 30.0})
            publisher.flush(timeout=60)

        publisher.publish({"class": "report", "id": 5000, "type": "fire", "lat": 61.0, "lon": 30.0})
        walk(62.0)
        around = dan.subscribe_channel("AroundMe", {"user": "dan"}, timeout=60)
        assert around.next_execution(timeout=5) == []
        walk(61.0)
        (came,) = collect(around, 1, 200)
        assert came.row == {"id": 5000} and not came.removed
        cluster.stop_driver()
        cluster.start_driver()
        walk(62.0)
        (gone,) = collect(around, 1, 400)
        assert gone.row == {"id": 5000} and gone.removed, "and nothing was added again"


def test_mistakes_are_told_at_once(cluster: Cluster) -> None:
    bad = cluster.directory / "bad.toml"
    bad.write_text('[channel.C]\nperiod = "1y"\nsql = "SELECT x FROM Nowhere WHERE y = :z"\n')
    said = cluster.pubctl("channel", "create", str(bad), code=2)
    assert "bad.toml:2:1" in said["error"]["message"] and "no dataset 'Nowhere'" in said["error"]["message"]
    cluster.pubctl("channel", "show", "Neer", code=6)
    cluster.pubctl("channel", "sub", "Near", "type=fire", "lat=north", "lon=1", code=2, at="edge")
    assert cluster.pubctl("channel", "drop", "Live", code=1)["error"]["message"].startswith(
        "channel Live has"
    )
    with cluster.client("edge") as client:
        with pytest.raises(grapevine.ParameterError, match="parameter km: expected at most 500"):
            client.subscribe_channel("Near", {"type": "fire", "lat": 1, "lon": 2, "km": 501}, timeout=60)
        with pytest.raises(grapevine.ChannelError, match="did you mean Near"):
            client.subscribe_channel("Nearr", {}, timeout=60)


def test_what_only_spark_knows(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "shelters.csv").write_text(SHELTERS)
    definitions = read_text(FILE, "channels.toml", {})
    datasets = dict(definitions.datasets)
    datasets["Shelters"] = type(datasets["Shelters"])("Shelters", file=str(tmp_path / "shelters.csv"))
    assert list(complaints(spark, definitions.channels, datasets)) == []
    wrong = read_text(FILE.replace("r.id, r.type, nearest", "r.id, r.tipe, nearest"), "c.toml", {})
    ((name, text),) = complaints(spark, wrong.channels, datasets)
    assert name == "Near" and "r.tipe" in text.replace("`", "") and "type" in text
    assert place_of(text, wrong.channels["Near"].sql) == (1, 14)
    found = explained(spark, definitions.channels["Near"], datasets)
    assert "BroadcastHashJoin" in found["plan"], "as it is when there are rows"
    assert found["form"] == "flat" and found["near"] == "grid cells" and "__sets" in found["statement"]


ODD = '''
[dataset.Reports]
filter = "class = 'report'"
columns = "id bigint, name string, größe double, order double"
[dataset.Places]
file = "places.csv"
[dataset.Names]
file = "names.csv"
[channel.Twice]
period = "10s"
new = "Reports"
sql = "SELECT r.id, a.id FROM Reports r JOIN Reports_all a ON a.id = r.id"
[channel.NoPlaces]
period = "10s"
new = "Reports"
sql = "SELECT r.id, nearest(Names, r.`größe`, r.`order`, 2) AS found FROM Reports r"
[channel.Nearest]
period = "10s"
new = "Reports"
parameters.of = "string"
parameters.n = "bigint"
parameters.less = "double"
parameters.at = "timestamp"
sql = """SELECT r.id, r.name, r.`größe` -:less AS more, nearest(Places, r.`größe`, r.`order`, :n) AS found
         FROM Reports r WHERE r.name = :of AND timestamp '2026-01-01' < :at"""
'''


def test_odd_names_and_values(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text('the name,lat,lon\nold `town`,60,24\n"a, b",61,25\nnowhere,,\n')
    (tmp_path / "names.csv").write_text("name,lat,lon\nx,north,east\n")
    found = read_text(ODD, "odd.toml", {}, tmp_path)
    said = dict(complaints(spark, found.channels, found.datasets))
    assert "two columns of the result are called id" in said.pop("Twice")
    assert "nearest needs lat and lon, numbers, in Names; it has name string" in said.pop("NoPlaces")
    assert said == {}
    rows = [
        {"id": 1, "name": 'it\'s "q"; -- \\', "größe": -60.5, "order": 24.0},
        {"id": 2, "name": 'it\'s "q"; -- \\', "größe": 60.5},
        {"id": -3, "name": "火事"},
        {"id": 2**62, "name": "", "größe": 60.9, "order": 25.0},
        {"id": "x", "name": 5},
    ]
    fed = [(at, FedRow(1, 1, at, "p", 9.0, encode_attributes(row), b"")) for at, row in enumerate(rows, 1)]
    tables = Tables()
    tables.keep(found.datasets["Reports"], tuple(fed), 0)
    channel, plan = found.channels["Nearest"], Plan("Nearest", 1, 1, 1, 10.0, (("Reports", 0, 9),))
    executor = Executor(spark, tables)
    sets = [
        {"of": rows[0]["name"], "n": 1, "less": -1.5, "at": "2026-06-01"},
        {"of": rows[0]["name"], "n": -7, "less": 1e308, "at": "9999-12-31T23:59:59Z"},
        {"of": "火事", "n": 5, "less": 0, "at": "2026-06-01"},
        {"of": "", "n": 2**40, "less": 0.1, "at": "2026-06-01T00:00:00+03:00"},
        {"of": "x' OR 1=1 --", "n": 1, "less": 0, "at": "2026-06-01"},
    ]
    forms = {be: canonical(take_set(channel.parameters, given)) for be, given in enumerate(sets, 2**63)}
    runs = {run.be: rows_of(run) for run in executor.run(Execute(channel, plan, forms, found.datasets))}
    for be, given in enumerate(sets, 2**63):
        wanted = executor.run_one(channel, plan, found.datasets, given)
        assert [msgspec.msgpack.decode(row)[1] for row in runs.get(be, [])] == wanted, given
    assert [len(runs.get(be, ())) for be in range(2**63, 2**63 + 5)] == [2, 2, 1, 1, 0]
    first = msgspec.msgpack.decode(runs[2**63][1])[1]
    assert first["found"] == [] and first["more"] == 62.0, "near a place that is null is nothing"
    last = msgspec.msgpack.decode(runs[2**63 + 3][0])[1]
    assert [each["the name"] for each in last["found"]] == ["a, b", "old `town`"]


def test_places_and_times_that_are_none_stop_nobody(spark: Any) -> None:
    """Of one report among many: it is near nothing, and the others come."""
    found = read_text(FILE.replace("lon double", "lon double, at timestamp"), "odd.toml", {})
    places = [(60.0, 24.0), (1e300, 24.0), (float("inf"), float("-inf")), (-1e13, 5e18), (60.01, 24.01)]
    rows = [
        {"id": at, "type": "fire", "lat": lat, "lon": lon, "at": lat * 1e9}
        for at, (lat, lon) in enumerate(places)
    ]
    fed = tuple(
        (at, FedRow(1, 1, at, "p", 9.0, encode_attributes(row), b"")) for at, row in enumerate(rows, 1)
    )
    tables = Tables()
    for name in ("Reports", "Users"):
        tables.keep(found.datasets[name], fed if name == "Reports" else (), 0)
    channel = msgspec.structs.replace(
        found.channels["Near"],
        sql="SELECT r.id, r.at FROM Reports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)",
    )
    plan = Plan("Near", 1, 1, 1, 10.0, (("Reports", 0, 9),))
    sets = {
        be: canonical(take_set(channel.parameters, {"type": "fire", "lat": lat, "lon": 24.0}))
        for be, lat in ((1, 60.0), (2, 95.0), (3, 1e308))
    }
    (run,) = Executor(spark, tables).run(Execute(channel, plan, sets, found.datasets))
    assert run.be == 1 and [msgspec.msgpack.decode(row)[1]["id"] for row in rows_of(run)] == [0, 4]
