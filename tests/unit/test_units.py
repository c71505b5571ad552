"""What ships for systemd: units that it understands, hardening that it counts, pages that man can show."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from daemon.main import parse
from tools.deploy.units import PAGES, Placed, change, configuration, placed, service, unreachable, write
from tools.pubctl.main import ENTRIES
from tools.pubctl.running import run

ROOT = Path(__file__).resolve().parents[2]
EXPOSURE_MAX = 1.5


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units as installed, with a program that exists, and without pages that only an installation has."""
    for file in placed(tmp_path, Path("/bin/true"), {}):
        write(file)
    directory = tmp_path / "etc/systemd/system"
    for path in directory.iterdir():
        path.write_text(path.read_text().replace("Documentation=man:grapevined(8)\n", ""))
    return directory


def needs_analyze() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")


def verify(*files: Path) -> str:
    """verify returns 0 on unknown keys too: what it says counts."""
    ended = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, timeout=30)
    return ended.stdout + ended.stderr


def test_systemd_has_nothing_to_say_about_the_units(units: Path) -> None:
    needs_analyze()
    assert verify(*sorted(units.iterdir())) == ""
    broken = units / "grapevined@.service"
    broken.write_text(broken.read_text().replace("WatchdogSec", "WatchdgSec"))
    assert "WatchdgSec" in verify(broken)


def test_the_unit_is_hardened(units: Path) -> None:
    needs_analyze()
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", units / "grapevined@.service"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"Overall exposure level.*: ([\d.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE_MAX


def test_the_page_is_a_unit_with_the_same_hardening(tmp_path: Path) -> None:
    needs_analyze()
    unit = tmp_path / "grapevine-web@.service"
    shipped = (ROOT / "systemd" / unit.name).read_text().replace("Documentation=man:pubctl(1)\n", "")
    unit.write_text(shipped.replace("/opt/grapevine/bin/pubctl", "/bin/true"))
    assert verify(unit) == ""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"Overall exposure level.*: ([\d.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE_MAX


def test_man_can_show_the_pages() -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man is not here")
    for page in PAGES:
        command = ["man", "--warnings", "-E", "UTF-8", "-l", str(ROOT / "docs" / "man" / page)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_the_pages_speak_of_what_there_is() -> None:
    page = (ROOT / "docs/man/pubctl.1").read_text()
    named = set(re.findall(r"\.B pubctl ([a-z]+)", page))
    assert named
    assert named <= ENTRIES.keys()
    page = (ROOT / "docs/man/grapevined.8").read_text().replace("\\-", "-")
    with pytest.raises(SystemExit):
        parse(["--no-such-option"])
    for option in ("--config", "--check-config", "--default-config", "--set"):
        assert option in page


def test_writing_again_changes_nothing_and_a_configuration_is_the_operators(tmp_path: Path) -> None:
    texts = {"b1": configuration(["tcp://127.0.0.1:7470"], [])}
    files = placed(tmp_path, Path("/x/grapevined"), texts)
    assert {write(file) for file in files} == {"new"}
    assert "ExecStart=/x/grapevined --config /etc/grapevine/%i.toml" in service(Path("/x/grapevined"))
    assert {write(file) for file in files} == {"same", "kept"}
    mine = tmp_path / "etc/grapevine/b1.toml"
    mine.write_text("[log]\n")
    assert write(Placed(mine, "other", keep=True)) == "kept"
    assert mine.read_text() == "[log]\n"
    assert change(Placed(mine, "other")) == "changed"


def test_what_is_written_is_a_configuration(tmp_path: Path) -> None:
    from daemon.settings import load

    path = tmp_path / "b1.toml"
    path.write_text(configuration(["tcp://127.0.0.1:7470"], ["tcp://127.0.0.1:7471"]))
    settings = load(path)
    assert settings.broker.listen == ("tcp://127.0.0.1:7470",)
    assert settings.tree.neighbours == ("tcp://127.0.0.1:7471",)


def test_a_program_that_the_unit_cannot_see_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist" in unreachable(Path("/no/grapevined"))
    assert unreachable(Path("/bin/true")) == ""
    (tmp_path / "grapevined").touch()
    monkeypatch.setattr("tools.deploy.units.HIDDEN", (str(tmp_path),))
    assert "install grapevine-broker elsewhere" in unreachable(tmp_path / "grapevined")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["b/1"], "is no name for a unit"),
        (["keys"], "is no name for a unit"),
        (["b1", "--listen", "7470"], "neither tcp://"),
        (["b1", "b2", "--listen", "tcp://127.0.0.1:7470"], "one by one"),
    ],
)
def test_mistakes(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["unit", "install", *words, "--yes"]) == 2
    assert told in capsys.readouterr().err
