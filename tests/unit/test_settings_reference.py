"""What is shipped and documented is what the code says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from daemon.settings import Settings, load
from daemon.settings.keys import table
from daemon.settings.reference import default_file, reference_page, toml_value
from overlay.settings import CoreSettings, OverlaySettings

ROOT = Path(__file__).resolve().parents[2]


def test_the_shipped_default_file_is_current() -> None:
    assert (ROOT / "daemon" / "default.toml").read_text() == default_file(), "run python -m daemon.settings"


def test_the_reference_page_is_current() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == reference_page(), (
        "run python -m daemon.settings"
    )


def test_the_default_file_says_the_defaults(tmp_path: Path) -> None:
    """With every key uncommented it is the same as no file."""
    lines = default_file().splitlines()
    said = [line[1:] if line.startswith("#") and line[1] not in " :" else line for line in lines]
    path = tmp_path / "all.toml"
    path.write_text("\n".join(said))
    content = tomllib.loads(path.read_text())
    assert {section: set(keys) for section, keys in content.items()} == {
        section: set(keys) for section, keys in table().items()
    }
    assert load(path) == load(None)


def test_the_core_is_told_every_setting_it_has() -> None:
    assert Settings().core() == CoreSettings()
    for section in CoreSettings.__struct_fields__:
        told = getattr(CoreSettings(), section).__struct_fields__
        assert set(told) <= set(table()[section]), section


def test_cluster_wide_marks_agree_with_what_brokers_compare() -> None:
    marked = {key.path for keys in table().values() for key in keys.values() if key.cluster}
    compared = {
        path
        for kind in ("tree", "onehop", "chord")
        for path in CoreSettings(overlay=OverlaySettings(kind)).cluster_wide()
    }
    assert marked == compared


def test_values_are_printed_as_toml() -> None:
    for value in ('a "b" \\', 1, 0.25, 30.0, True, ("a", "b"), ()):
        read = tomllib.loads(f"x = {toml_value(value)}")["x"]
        assert (tuple(read) if isinstance(read, list) else read) == value
        assert type(read) is (list if isinstance(value, tuple) else type(value))


def test_settings_survive_json() -> None:
    settings = load(None, {}, ["tree.neighbours=tcp://a:1"])
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings
