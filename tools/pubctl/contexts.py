"""Named places to talk to: a broker and the keys for it, one of them in use.

`$XDG_CONFIG_HOME/grapevine/contexts.toml` holds them. Flags and the environment (`PUBCTL_BROKER`,
`GRAPEVINE_KEYS`) go before the context in use; `PUBCTL_CONTEXT` chooses one for a shell.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from daemon.settings.values import toml_value
from tools.pubctl.failure import NOT_FOUND, USAGE, Failure


class Context(msgspec.Struct, forbid_unknown_fields=True):
    broker: str
    keys: str = ""


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    current: str = ""
    context: dict[str, Context] = {}

    @classmethod
    def read(cls, path: Path) -> Contexts:
        try:
            return msgspec.convert(tomllib.loads(path.read_text()), cls)
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise Failure(f"{path}: {error}: correct it by hand, or remove it", USAGE) from None

    def write(self, path: Path) -> None:
        lines = [f"current = {toml_value(self.current)}"]
        for name, context in self.context.items():
            lines += ["", f"[context.{toml_value(name)}]", f"broker = {toml_value(context.broker)}"]
            lines += [f"keys = {toml_value(context.keys)}"] if context.keys else []
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(path)

    def named(self, name: str) -> Context:
        if name not in self.context:
            known = ", ".join(self.context) or "none yet: `pubctl context add NAME URL`"
            raise Failure(f"no context {name}; there are {known}", NOT_FOUND)
        return self.context[name]


def file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "grapevine" / "contexts.toml"


def in_use(environment: Mapping[str, str]) -> Context | None:
    """The context that this shell or this user has chosen."""
    path = file(environment)
    chosen = environment.get("PUBCTL_CONTEXT", "")
    if not chosen and not path.exists():
        return None
    contexts = Contexts.read(path)
    name = chosen or contexts.current
    return contexts.named(name) if name else None
