"""Configuration: layers, and every mistake at once with its place, its key and a hint."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from daemon.settings import ConfigError, checks, load
from daemon.settings.keys import table


def mistakes(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    path = tmp_path / "b.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(path, environment)
    return [str(problem).replace(str(path), "FILE") for problem in raised.value.problems]


def test_later_layers_win(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text('[broker]\nname = "file"\n[links]\nwindow = 1\nping_s = 1\n[tree]\ncovering = false\n')
    drop_ins = tmp_path / "b.toml.d"
    drop_ins.mkdir()
    (drop_ins / "20.toml").write_text("[links]\nwindow = 20\n")
    (drop_ins / "10.toml").write_text("[links]\nwindow = 10\nlost_after_s = 9\n")
    environment = {"GRAPEVINE_LINKS__LOST_AFTER_S": "8.5", "GRAPEVINE_BROKER__NAME": "env", "HOME": "/"}
    settings = load(path, environment, ["broker.name=flag"])
    assert settings.broker.name == "flag"
    assert settings.links.window == 20
    assert settings.links.lost_after_s == 8.5
    assert settings.links.ping_s == 1.0
    assert settings.tree.covering is False
    assert settings.clients.queue == load(None).clients.queue


def test_environment_text_becomes_each_type() -> None:
    settings = load(
        None,
        {
            "GRAPEVINE_BROKER__LISTEN": "tcp://127.0.0.1:1, tcp://127.0.0.1:2",
            "GRAPEVINE_TREE__NEIGHBOURS": '["tcp://a:1"]',
            "GRAPEVINE_SECURITY__CURVE": "false",
            "GRAPEVINE_BROKER__NAME": "123",
            "GRAPEVINE_LINKS__WINDOW": "7",
        },
    )
    assert settings.broker.listen == ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    assert settings.tree.neighbours == ("tcp://a:1",)
    assert settings.security.curve is False
    assert settings.broker.name == "123"
    assert settings.links.window == 7


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = '[broker]\nnam = "x"\nlisten = "tcp://a:1"\n[link]\nwindow = 3\n[links]\nwindow = "many"\n'
    found = mistakes(tmp_path, text, {"GRAPEVINE_TREE__ROUTNG": "flooding"})
    assert found == [
        "FILE: broker.nam: unknown key; did you mean name?",
        "FILE: broker.listen: expected list, got str, not 'tcp://a:1'",
        "FILE: link.window: unknown section [link]; did you mean links?",
        "FILE: links.window: expected int, got str, not 'many'",
        "environment GRAPEVINE_TREE__ROUTNG: tree.routng: unknown key; did you mean routing?",
    ]


ONEHOP = "[broker]\nroles = ['matcher']\n[overlay]\nkind = 'onehop'\n[onehop]\n"
RING = "[overlay]\nkind = 'chord'\n"
MISTAKES = [
    ("name = 'x'\n", "name: stands in no section; it belongs to broker.name"),
    ("[tree]\ncurve = false\n", "tree.curve: unknown key; did you mean security.curve?"),
    ("[overlay]\nkind = 'tre'\n", "'tre' is not one of tree, chord, onehop; did you mean tree?"),
    ("[overlay]\ndelta = 0\n", "overlay.delta: expected int >= 1, not 0"),
    ("[links]\nwindow = true\n", "links.window: expected int, got bool"),
    ("[broker]\nlisten = []\n", "broker.listen: no address"),
    ("[broker]\nlisten = ['udp://a:1']\n", "'udp://a:1' is neither tcp://host:port nor ipc://path"),
    ("[broker]\nlisten = ['tcp://a:99999']\n", "ports end at 65535"),
    ("[broker]\nlisten = ['tcp://a']\n", "'tcp://a' is neither"),
    ("[broker]\nroles = ['borker']\n", "did you mean broker?"),
    ("[broker]\nname = 'a/b'\n", "broker.name: 'a/b'"),
    ("[broker]\ncontrol = 'tcp://127.0.0.1:1'\n", "broker.control: 'tcp://127.0.0.1:1': only ipc"),
    ("[broker]\ncontrol = 'ipc://" + "/x" * 60 + "'\n", "120 bytes long"),
    ("[broker]\ncontrol = 'ipc://x'\n", "write the whole path"),
    ("[tree]\nneighbours = ['tcp://*:1']\n", "has no host to connect to"),
    ("[tree]\nneighbours = ['tcp://a:0']\n", "has no port to connect to"),
    ("[tree]\nneighbours = ['tcp://127.0.0.1:7470']\n", "is this broker's own address"),
    ("[softlinks]\nstrategy = 'S2'\n", "'S2' does not go with overlay.ordered = true; there: S0, SD, SH"),
    (
        "[overlay]\nordered = false\n[softlinks]\nstrategy = 'SD'\n",
        "'SD' does not go with overlay.ordered = false; there: S0, S1, S2, SH",
    ),
    ("[links]\nlost_after_s = 0.5\nping_s = 1\n", "links.lost_after_s: shorter than links.ping_s = 1"),
    ("[transport]\nframe_bytes = 65536\n", "links.batch_bytes: over transport.frame_bytes = 65536"),
    ("[http]\nlisten = '9470'\n", "http.listen: '9470' is not host:port"),
    ("[delivery_log]\ncontent = true\n", "delivery_log.content: true is not in this version"),
    ("[broker]\nname = '..'\n", "broker.name: '..' is no name"),
    ("[broker]\naddresses = ['tcp://a']\n", "broker.addresses: 'tcp://a' is neither"),
    ("[broker]\nlisten = ['tcp://a:1', 'tcp://a:1']\n", "broker.listen: an address stands here twice"),
    ("[broker]\ncoordinator = 'a:1'\n", "broker.coordinator: 'a:1' is neither"),
    ("[broker]\nbackend = 'a:1'\n", "broker.backend: 'a:1' is neither"),
    ("[broker]\nroles = ['backend']\n", '"backend" goes with "broker"'),
    ("[broker]\nroles = ['matcher']\n", '"matcher" is for overlay.kind = "onehop"'),
    ("[broker]\nlocation = [95.0, 0.0]\n", "broker.location: latitude and longitude in degrees"),
    ("[broker]\nlocation = [60.0]\n", "broker.location: latitude and longitude in degrees"),
    ("[broker]\nlocation = [60.0, 200.0]\n", "broker.location: degrees are within 180"),
    ("[balancing]\nmode = 'on'\n", "balancing.mode: is for the broker whose roles hold"),
    ("[overlay]\nkind = 'onehop'\n", "broker.roles: with overlay.kind"),
    (ONEHOP + "dimensions = []\n", "onehop.dimensions: 1 to "),
    (ONEHOP + "dimensions = ['x', 'x']\n", "onehop.dimensions: an attribute stands here twice"),
    (ONEHOP + "dimensions = ['x']\ndelivery = 'matcher'\n", '"matcher" keeps no order'),
    (ONEHOP + "dimensions = ['x']\nseeds = ['a']\n", "onehop.seeds: 'a' is neither"),
    (ONEHOP.replace("matcher", "dispatcher") + "dimensions = ['x']\n", "a dispatcher needs the address"),
    (RING + "[chord]\nmembers = ['a']\n", "chord.members: 'a' is neither"),
    (RING + "[topics]\nby = ['x', 'x']\n", "topics.by: "),
    (RING + "[tree]\nneighbours = ['tcp://a:1']\n", "tree: this section is for overlay.kind"),
    (RING + "[softlinks]\nstrategy = 'SD'\n", "soft links are for overlay.kind"),
    (RING + "[relocation]\nalgorithm = 'pop'\n", "publishers move on overlay.kind"),
    (RING + "ordered = false\n", "a ring keeps the order"),
    (RING + "[journal]\ncopies = 2\n", "journal.copies: a second copy is kept on"),
    ("[journal]\ncopies = 2\nenabled = false\n", "journal.copies: there is nothing to copy"),
    ("[chord]\nmembers = ['tcp://a:1']\n", 'chord.members: for overlay.kind = "chord"'),
    ("[broker\n", "FILE: not TOML: Expected ']'"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    found = mistakes(tmp_path, text)
    assert any(said in one for one in found), found


def test_no_mistake_is_left_out(tmp_path: Path) -> None:
    """Every line of the checks that names a mistake is reached by one of these."""
    source = Path(checks.__file__).read_text()
    names = {
        node.value.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Yield) and node.value is not None)
        or (isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr | ast.IfExp))
    }
    reached: set[int] = set()

    def follow(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != checks.__file__:
            return None
        reached.add(frame.f_lineno)
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        for text, _ in MISTAKES:
            mistakes(tmp_path, text)
    finally:
        sys.settrace(before)
    assert len(names) > 30 and names <= reached, sorted(names - reached)


def test_every_wrong_key_of_every_section_is_refused(tmp_path: Path) -> None:
    for section, keys in table().items():
        for key in keys:
            found = mistakes(tmp_path, f"[{section}]\n{key}x = 1\n")
            assert found == [f"FILE: {section}.{key}x: unknown key; did you mean {key}?"]


def test_every_key_refuses_a_wrong_type(tmp_path: Path) -> None:
    for section, keys in table().items():
        for key in keys:
            found = mistakes(tmp_path, f"[{section}]\n{key} = {{ a = 1 }}\n")
            assert len(found) == 1 and found[0].startswith(f"FILE: {section}.{key}: "), found


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; `grapevined --default-config`"):
        load(tmp_path / "none.toml")


def test_a_flag_without_a_value_is_said() -> None:
    with pytest.raises(ConfigError, match="--set: broker: write it as section"):
        load(None, {}, ["broker"])


def test_values_of_a_file_are_strict(tmp_path: Path) -> None:
    assert tomllib.loads('x = "7"')["x"] == "7"
    assert mistakes(tmp_path, '[links]\nwindow = "7"\n') == [
        "FILE: links.window: expected int, got str, not '7'"
    ]
