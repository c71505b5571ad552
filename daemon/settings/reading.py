"""Layers to settings: defaults < file < FILE.d/*.toml < environment < flags.

Every mistake is collected with its place and key, and all of them are raised at once. Nothing here opens
anything but configuration files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from daemon.settings.checks import check
from daemon.settings.keys import Key, sections, table
from daemon.settings.sections import Settings

PREFIX = "GRAPEVINE_"


class Problem(NamedTuple):
    place: str  # a file, "environment GRAPEVINE_...", "--set", or "" for a default
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class ConfigError(Exception):
    """The operator's mistakes, all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Said(NamedTuple):
    """One value, where it stands, and whether it is text that has yet to become a value."""

    place: str
    section: str
    key: str
    value: Any
    text: bool = False


def load(
    path: Path | None, environment: Mapping[str, str] | None = None, flags: Iterable[str] = ()
) -> Settings:
    """The settings in force; `flags` are `section.key=value`. Raises ConfigError."""
    problems: list[Problem] = []
    said: list[Said] = []
    for file in _files(path, problems):
        said += _read_file(file, problems)
    said += _read_environment(environment or {})
    said += _read_flags(flags, problems)
    values, places = _take(said, problems)
    settings = _build(values)
    named = {problem.key for problem in problems}
    for key, text in check(settings):
        if key not in named:
            problems.append(Problem(places.get(key, ""), key, text))
    if problems:
        raise ConfigError(problems)
    return settings


# --- layers --------------------------------------------------------------------------------------


def _files(path: Path | None, problems: list[Problem]) -> list[Path]:
    if path is None:
        return []
    if not path.is_file():
        problems.append(Problem(str(path), "", "no such file; `grapevined --default-config` prints one"))
        return []
    return [path, *sorted(path.with_name(path.name + ".d").glob("*.toml"))]


def _read_file(path: Path, problems: list[Problem]) -> Iterator[Said]:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        problems.append(Problem(str(path), "", f"cannot be read: {error.strerror}"))
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(str(path), "", f"not TOML: {error}"))
        return
    for section, keys in content.items():
        if not isinstance(keys, dict):
            problems.append(Problem(str(path), section, _stray(section)))
            continue
        for key, value in keys.items():
            yield Said(str(path), section, key, value)


def _read_environment(environment: Mapping[str, str]) -> Iterator[Said]:
    for name in sorted(environment):
        section, separator, key = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and separator:
            yield Said(f"environment {name}", section, key, environment[name], text=True)


def _read_flags(flags: Iterable[str], problems: list[Problem]) -> Iterator[Said]:
    for flag in flags:
        path, equals, value = flag.partition("=")
        section, dot, key = path.strip().partition(".")
        if not equals or not dot:
            problems.append(Problem("--set", flag, "write it as section.key=value"))
            continue
        yield Said("--set", section, key, value.strip(), text=True)


# --- values --------------------------------------------------------------------------------------


def _take(said: list[Said], problems: list[Problem]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    known = table()
    values: dict[str, dict[str, Any]] = {name: {} for name in known}
    places: dict[str, str] = {}
    for one in said:
        path = f"{one.section}.{one.key}"
        key = known.get(one.section, {}).get(one.key)
        if key is None:
            problems.append(Problem(one.place, path, _unknown(one.section, one.key, known)))
            continue
        try:
            values[one.section][one.key] = _convert(key, one)
            places[path] = one.place
        except (ValueError, msgspec.ValidationError) as error:
            problems.append(Problem(one.place, path, _wrong(key, one.value, str(error))))
    return values, places


def _convert(key: Key, said: Said) -> Any:
    value = said.value
    if said.text and key.many:
        value = _parse_list(value)
    return msgspec.convert(value, key.type, strict=not said.text)


def _parse_list(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        parsed = tomllib.loads(f"x = {text}")["x"]
        assert isinstance(parsed, list)
        return parsed
    return [part.strip() for part in text.split(",") if part.strip()]


def _build(values: dict[str, dict[str, Any]]) -> Settings:
    built: dict[str, Any] = {name: cls(**values[name]) for name, cls in sections().items()}
    return Settings(**built)


# --- what to say ---------------------------------------------------------------------------------


def _hint(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, list(words), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _stray(key: str) -> str:
    homes = [f"{section}.{key}" for section, keys in table().items() if key in keys]
    return f"stands in no section; it belongs to {homes[0]}" if homes else "not a section"


def _unknown(section: str, key: str, known: dict[str, dict[str, Key]]) -> str:
    if section not in known:
        hint = _hint(section, known) or "; there are " + ", ".join(known)
        return f"unknown section [{section}]{hint}"
    elsewhere = [f"{other}.{key}" for other, keys in known.items() if key in keys]
    hint = _hint(key, known[section])
    if not hint:
        hint = f"; did you mean {elsewhere[0]}?" if elsewhere else "; there are " + ", ".join(known[section])
    return f"unknown key{hint}"


def _wrong(key: Key, value: Any, error: str) -> str:
    if key.choices and not error.startswith("Expected"):
        words = [word for word in (value if isinstance(value, list) else [value]) if word not in key.choices]
        hint = _hint(str(words[0]), key.choices) if words else ""
        return f"{value!r} is not one of {', '.join(key.choices)}{hint}"
    where = " (in the list)" if " - at `$[" in error else ""
    text = error.partition(" - at `")[0].replace("`", "").replace("array", "list")
    return f"{text[:1].lower()}{text[1:]}{where}, not {value!r}"
