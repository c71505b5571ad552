"""Keys of this broker and of those who may connect to it (DECISIONS 17).

The pair stays in the state directory, readable by its owner alone. The public key is written to the user's
keys directory with this broker's addresses; every key found there is authorised, and brokers find each
other's keys there by address. Further keys stand in a file, one a line. A mistake in any of these leaves
what was authorised before as it was, and says so; at the start that is nobody. Where there is a policy
(daemon/policy.py), it alone says who may connect and what for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import time_ns

from daemon.errors import Failure, next_step
from daemon.logs import log
from daemon.policy import FILE, FULL, Grant, Grants, PolicyError
from daemon.policy import read as read_policy
from grapevine.client.keys import (
    KEY_CHARS,
    Entry,
    KeyFileError,
    default_directory,
    find_server,
    load_or_create,
    read_entries,
    rival,
    write_entry,
)

NOBODY = Grant(frozenset())
TICK_NS = 100_000_000  # a change so soon before it was read may hide another with the same time


def keys_directory(configured: str) -> Path:
    return Path(configured).expanduser().absolute() if configured else default_directory()


def publish(directory: Path, name: str, public: str, addresses: Iterable[str]) -> None:
    """Tell the user's other brokers and clients where this one is and which key it has (none: ""). A broker
    of the same name that runs would be cut off by that, without a word."""
    told = tuple(addresses)
    try:
        if where := rival(directory, name, public, told):
            raise Failure(
                f"another broker named {name} runs at {where} and has its key in {directory}: give this one "
                "another name (broker.name) or a keys directory of its own (security.keys)"
            )
        write_entry(directory, Entry(name, public, told))
    except KeyFileError as error:
        raise Failure(f"{error}; change security.keys or its permissions") from None


class Keys:
    def __init__(self, directory: Path, further: Path, pair: Path) -> None:
        self.directory = directory
        self.further = further
        self.authorised: frozenset[str] = frozenset()  # replaced as a whole: two threads read it
        self.grants: Grants | None = None  # None: every authorised key may do everything
        self.generation = 0  # of the two
        self._stamp: tuple[int, ...] = ()  # when what was read had last changed
        self._certain = False
        try:
            keys = load_or_create(pair)
            self.public, self.secret = keys.public, keys.secret
            self._read(start=True)
        except (KeyFileError, ValueError) as error:
            raise Failure(str(error)) from None
        except OSError as error:
            raise Failure(f"{error.filename}: {next_step(error)}") from None

    def allows(self, key: str) -> bool:
        """Whether this key may connect; a key unknown so far may have been written since. A stranger costs
        three calls of stat."""
        if key not in self.authorised:
            self.look()
        return key in self.authorised

    def grant(self, key: str) -> Grant | None:
        """What this key may do now; None: nothing."""
        if self.grants is None:
            return FULL if key in self.authorised else None
        return self.grants.get(key)

    def server_key(self, address: str) -> str:
        """The key of the broker at `address`; LookupError says what to do."""
        hint = f"copy its .broker.toml file to {self.directory}"
        try:
            found = find_server(self.directory, address).public
        except KeyFileError as error:
            raise LookupError(str(error)) from None
        except LookupError:
            raise LookupError(f"the key of the broker at {address} is not known: {hint}") from None
        if not found:
            raise LookupError(f"the broker at {address} has security.curve = false and this one has true")
        if self.grants is not None and "broker" not in self.grants.get(found, NOBODY).roles:
            raise LookupError(f"the key of the broker at {address} has no role broker in {FILE}")
        return found

    def look(self) -> None:
        """Read again if something has changed."""
        if not self._certain or self._stamp != self._changed_at():
            self.read_again()

    def read_again(self) -> None:
        try:
            self._read()
        except (KeyFileError, OSError, ValueError) as error:
            log.error("keys are left as they were: %s", error)

    def _read(self, start: bool = False) -> None:
        self._stamp = self._changed_at()
        self._certain = time_ns() - max(self._stamp) > TICK_NS
        entries = read_entries(self.directory) if self.directory.is_dir() else []
        policy = self.directory / FILE
        if os.path.lexists(policy):  # a link to nowhere is unreadable, not absent
            self._take(*self._governed(policy, entries, start))
        elif self.grants is not None:
            raise ValueError(f"{policy} is gone, and the old one stays in force until a restart")
        else:
            keys = (self.public, *[entry.public for entry in entries if entry.public], *self._further())
            self._take(None, frozenset(keys))

    def _governed(
        self, policy: Path, entries: list[Entry], start: bool
    ) -> tuple[Grants | None, frozenset[str]]:
        try:
            grants = read_policy(policy, entries)
        except PolicyError as error:
            if not start:
                raise
            log.error("nobody may connect: %s", error)
            grants = {}
        return grants, frozenset(grants)

    def _take(self, grants: Grants | None, authorised: frozenset[str]) -> None:
        if (grants, authorised) != (self.grants, self.authorised):
            self.grants, self.authorised = grants, authorised
            self.generation += 1

    def _changed_at(self) -> tuple[int, ...]:
        watched = (self.directory, self.further, self.directory / FILE)
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in watched)

    def _further(self) -> list[str]:
        try:
            lines = self.further.read_text().splitlines()
        except FileNotFoundError:
            return []
        keys = []
        for number, line in enumerate(lines, 1):
            word = line.split(maxsplit=1)[0] if line.strip() else "#"
            if len(word) == KEY_CHARS:
                keys.append(word)
            elif not word.startswith("#"):
                raise ValueError(f"{self.further}:{number}: a key has {KEY_CHARS} characters")
        return keys
