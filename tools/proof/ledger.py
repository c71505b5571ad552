"""Results kept under .proof/, one file per tree and claim, so that a run of hours goes on where it stopped.

Rules: the key is the tree that was proved: the commit, and for a changed tree also a digest of the changes,
so that no result outlives the code it was got from; a result is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Literal

import msgspec

Verdict = Literal["passed", "failed", "skipped"]


class Result(msgspec.Struct, frozen=True):
    claim: str
    command: str
    verdict: Verdict
    seconds: float
    reasons: tuple[str, ...]
    finished_at: str
    log: str


def git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout


def tree_key(root: Path) -> str:
    commit = git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    digest = hashlib.blake2b(git(root, "diff", "HEAD", "--binary"), digest_size=4)
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    for name in sorted(filter(None, untracked)):
        digest.update(name + b"\0" + (root / os.fsdecode(name)).read_bytes())
    clean = hashlib.blake2b(digest_size=4).hexdigest()
    return commit if digest.hexdigest() == clean else f"{commit}+{digest.hexdigest()}"


class Ledger:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def log_path(self, claim: str) -> Path:
        return self.directory / f"{claim}.log"

    def get(self, claim: str, command: str) -> Result | None:
        """The stored result, unless the claim's command has changed since."""
        try:
            result = msgspec.json.decode((self.directory / f"{claim}.json").read_bytes(), type=Result)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        return result if result.command == command else None

    def put(self, result: Result) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{result.claim}.json"
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        partial.replace(path)
