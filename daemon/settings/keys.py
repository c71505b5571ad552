"""The keys of the configuration as a table, read off the section classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from daemon.settings.section import Section
from daemon.settings.sections import Settings


class Key(NamedTuple):
    section: str
    name: str
    type: Any  # Annotated, as msgspec takes it
    meta: msgspec.Meta
    default: Any

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def text(self) -> str:
        return self.meta.description or ""

    @property
    def reload(self) -> bool:
        return bool((self.meta.extra or {})["reload"])

    @property
    def cluster(self) -> bool:
        return bool((self.meta.extra or {})["cluster"])

    @property
    def plain(self) -> Any:
        return get_args(self.type)[0]

    @property
    def many(self) -> bool:
        return get_origin(self.plain) is tuple

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a key that has only some."""
        inner = get_args(self.plain)[0] if self.many else self.plain
        return get_args(inner) if get_origin(inner) is Literal else ()


def sections() -> dict[str, type[Section]]:
    return dict(get_type_hints(Settings))


def keys_of(name: str, section: type[Section]) -> Iterator[Key]:
    hints = get_type_hints(section, include_extras=True)
    defaults = section()
    for field in section.__struct_fields__:
        assert get_origin(hints[field]) is Annotated, f"{name}.{field} says nothing about itself"
        yield Key(name, field, hints[field], hints[field].__metadata__[0], getattr(defaults, field))


def table() -> dict[str, dict[str, Key]]:
    return {name: {key.name: key for key in keys_of(name, cls)} for name, cls in sections().items()}


def value(settings: Settings, path: str) -> Any:
    section, key = path.split(".")
    return getattr(getattr(settings, section), key)
