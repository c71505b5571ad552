"""Topology files: what they generate, how configurations come out, and every mistake at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import load
from tools.pubctl.crew import toml
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.topology import Topology, build, read


def topology(text: str) -> Topology:
    return build(tomllib.loads(text))


def parents(plan: Topology) -> dict[str, list[str]]:
    return {broker.name: broker.neighbours for broker in plan.brokers}


def test_a_tree_with_fanout_two() -> None:
    plan = topology('generate = { shape = "tree", brokers = 7, fanout = 2 }')
    assert parents(plan) == {
        "b1": [], "b2": ["b1"], "b3": ["b1"], "b4": ["b2"], "b5": ["b2"], "b6": ["b3"], "b7": ["b3"],
    }  # fmt: skip
    assert [[b.name for b in level] for level in plan.levels()] == [
        ["b1"],
        ["b2", "b3"],
        ["b4", "b5", "b6", "b7"],
    ]
    assert [b.address for b in plan.brokers][:2] == ["tcp://127.0.0.1:7470", "tcp://127.0.0.1:7471"]


@pytest.mark.parametrize(("shape", "depth"), [("line", 5), ("star", 2), ("tree", 3)])
def test_shapes(shape: str, depth: int) -> None:
    assert len(topology(f'generate = {{ shape = "{shape}", brokers = 5 }}').levels()) == depth


def test_a_random_shape_is_its_seed() -> None:
    def shape(seed: int) -> dict[str, list[str]]:
        return parents(topology(f'generate = {{ shape = "random", brokers = 40, seed = {seed} }}'))

    assert shape(3) == shape(3)
    assert shape(3) != shape(4)
    assert all(int(up[0][1:]) < int(name[1:]) for name, up in shape(3).items() if up)


def test_sixty_three_brokers() -> None:
    plan = topology("generate = { shape = 'tree', brokers = 63, fanout = 2 }")
    assert len({broker.address for broker in plan.brokers}) == 63
    assert len(plan.levels()) == 6


WRITTEN = """
port = 9000
[defaults.links]
ping_s = 1.0
[defaults.overlay]
delta = 4
[[broker]]
name = "hub"
listen = "tcp://127.0.0.1:9001"
[[broker]]
name = "edge"
neighbours = ["hub", "tcp://elsewhere:7470"]
links = { ping_s = 0.5 }
[[client]]
kind = "subscriber"
broker = "edge"
filter = "x > 1"
start_s = 2
"""


def test_configurations_of_written_brokers(tmp_path: Path) -> None:
    """What comes out is a configuration that a daemon takes."""
    plan = topology(WRITTEN)
    edge = plan.settings(plan.broker("edge"))
    assert edge["tree"]["neighbours"] == ["tcp://127.0.0.1:9001", "tcp://elsewhere:7470"]
    assert edge["links"] == {"ping_s": 0.5}
    assert edge["broker"]["listen"] == ["tcp://127.0.0.1:9000"]
    file = tmp_path / "edge.toml"
    file.write_text(toml(edge))
    settings = load(file)
    assert (settings.broker.name, settings.overlay.delta, settings.links.ping_s) == ("edge", 4, 0.5)
    assert plan.settings(plan.broker("hub"))["links"] == {"ping_s": 1.0}
    assert (plan.clients[0].kind, plan.clients[0].start_s) == ("subscriber", 2.0)


def test_a_written_broker_says_more_about_a_generated_one() -> None:
    plan = topology("generate = { brokers = 3 }\n[[broker]]\nname = 'b2'\nlog = { level = 'debug' }")
    assert [broker.name for broker in plan.brokers] == ["b1", "b2", "b3"]
    assert parents(plan)["b2"] == ["b1"]
    assert plan.settings(plan.broker("b2"))["log"] == {"level": "debug"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["no brokers"]),
        ("brokers = 3", ["brokers: unknown", "no brokers"]),
        ("generate = { brokers = 0 }", ["at least 1", "no brokers"]),
        ("generate = { shape = 'ring' }", ["shape", "no brokers"]),
        ("generate = { broker = 3 }", ["unknown field", "no brokers"]),
        ("port = 0\ngenerate = {}", ["port"]),
        ("port = true\ngenerate = {}", ["port"]),
        ("[broker]\nname = 'a'", ["[[broker]]", "no brokers"]),
        ("[[broker]]\nname = 'a'\nneighbours = ['b']", ["no broker b"]),
        ("[[broker]]\nname = 'a'\nneighbours = ['a']", ["own neighbour"]),
        ("[[broker]]\nname = 'a'\n[[broker]]\nname = 'a'", ["there are two"]),
        ("[[broker]]\nname = 'a'\nlinks = { pings = 1 }", ["unknown key links.pings"]),
        ("[[broker]]\nname = 'a'\ncolour = 1", ["colour is no section"]),
        ("generate = {}\n[defaults.link]\nping_s = 1", ["link is no section"]),
        ("generate = {}\n[[client]]\nkind = 'reader'\nbroker = 'b1'", ["reader"]),
        ("generate = {}\n[[client]]\nkind = 'publisher'\nbroker = 'zz'", ["no broker zz"]),
    ],
)
def test_mistakes(text: str, said: list[str]) -> None:
    with pytest.raises(Failure) as caught:
        topology(text)
    lines = str(caught.value).splitlines()
    assert caught.value.code == USAGE
    assert len(lines) == len(said), lines
    for line, words in zip(lines, said):
        assert words in line


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("a = [", "not TOML")])
def test_files_that_cannot_be_read(tmp_path: Path, content: Any, said: str) -> None:
    file = tmp_path / "t.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Failure, match=said):
        read(file)


def test_when_brokers_and_clients_start() -> None:
    content = {
        "broker": [{"name": "a"}, {"name": "b", "neighbours": ["a"], "start_s": 1.5}],
        "client": [{"kind": "publisher", "broker": "a", "attributes": {"x": "y", "on": True}, "start_s": 2}],
    }
    plan = build(content)
    assert [broker.start_s for broker in plan.brokers] == [0.0, 1.5]
    assert plan.clients[0].name == "publisher1"
    words = plan.clients[0].words("tcp://h:1")
    assert words[words.index("--after") + 1] == "2.0s"
    assert words[-2:] == ["x='y'", "on=true"]
    content["broker"][1]["start_s"] = -1
    content["client"].append({"kind": "subscriber", "broker": "a", "name": "b"})
    with pytest.raises(Failure) as failure:
        build(content)
    assert "b: start_s is no time before the start" in str(failure.value)
    assert "client b: a broker has this name" in str(failure.value)


def test_a_broker_says_its_roles_as_in_its_configuration(tmp_path: Path) -> None:
    plan = topology("""
[[broker]]
name = "hub"
roles = ["broker", "coordinator"]
[[broker]]
name = "edge"
neighbours = ["hub"]
broker = { roles = ["broker"], control = "ipc:///tmp/edge" }
""")
    for broker, roles in zip(plan.brokers, (("broker", "coordinator"), ("broker",)), strict=True):
        file = tmp_path / f"{broker.name}.toml"
        file.write_text(toml(plan.settings(broker)))
        assert load(file, {}).broker.roles == roles
