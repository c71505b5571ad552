"""The policy file as tools write it: one rule a key, by its public key, with its name for people."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon.settings.values import toml_value
from grapevine.client.keys import Entry
from tools.pubctl.failure import FAILED, Failure

FILE = "policy.toml"
HEAD = "# Who may do what; without this file every key of the directory may do everything.\n"
EVERY = {"client": ("publisher", "subscriber", "admin"), "broker": ("broker",)}


class Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    name: str = ""
    public: str = ""
    roles: list[str] = []
    publish: str = ""
    ask: str = ""

    def about(self, entry: Entry) -> bool:
        return self.public == entry.public if self.public else self.name == entry.name


class Policy(msgspec.Struct, forbid_unknown_fields=True):
    key: list[Rule] = []

    @classmethod
    def read(cls, directory: Path) -> Policy | None:
        path = directory / FILE
        try:
            return msgspec.convert(tomllib.loads(path.read_text()), cls)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}", FAILED) from None
        except (ValueError, msgspec.ValidationError) as error:
            raise Failure(f"{path}: {error}: correct it by hand first", FAILED) from None

    @classmethod
    def of_all(cls, entries: Iterable[Entry]) -> Policy:
        """What held without a policy: everybody who is there, clients and pubctl among them, and brokers."""
        made = cls()
        for entry in entries:
            if entry.public:
                made.put(entry, EVERY[entry.kind])
        return made

    def rule(self, entry: Entry) -> Rule | None:
        return next((rule for rule in reversed(self.key) if rule.about(entry)), None)

    def put(self, entry: Entry, roles: Iterable[str], publish: str = "", ask: str = "") -> None:
        self.drop(entry)
        rule = Rule(name=entry.name, public=entry.public, roles=list(roles), publish=publish, ask=ask)
        self.key.append(rule)

    def drop(self, entry: Entry) -> None:
        self.key = [rule for rule in self.key if not rule.about(entry)]

    def write(self, directory: Path) -> None:
        """Whole or not at all, and readable by whom the directory belongs to."""
        lines = [HEAD]
        for rule in self.key:
            fields = msgspec.to_builtins(rule)
            lines.append(
                "[[key]]\n" + "".join(f"{name} = {toml_value(value)}\n" for name, value in fields.items())
            )
        beside = directory / f".{FILE}.{os.getpid()}"
        beside.write_text("\n".join(lines))
        beside.chmod(0o600)
        if os.geteuid() == 0:
            owner = directory.stat()
            os.chown(beside, owner.st_uid, owner.st_gid)
        beside.replace(directory / FILE)
