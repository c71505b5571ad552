"""The record in docs/proof.md: of every claim the newest result, with the tree and the time it was got on.

Rules: a run of all claims takes a day of processor time, so they are proved in pieces; the record keeps what
each piece showed. A row stands until the claim is proved again, its command changes, or the claim goes. The
table is read back before it is written, so results of several machines add up.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import get_args

import msgspec

from tools.proof.claims import Claim
from tools.proof.ledger import Result, Verdict

HEAD = """# What was proved, and when

Every claim of `tools/proof/claims.toml` with its newest result. `make proof PROOF="--only CLAIM"` runs one
again, and `python -m tools.proof --record docs/proof.md` writes what `.proof/` has into this table. A row
tells of the tree that it names; later ones may differ. *command* is a digest: a claim whose command has
changed since has no result.

"""
COLUMNS = ("claim", "result", "tree", "finished (UTC)", "seconds", "command", "why not")
OPEN, VERDICTS = "open", get_args(Verdict)


class Row(msgspec.Struct, frozen=True):
    claim: str
    verdict: str
    tree: str
    finished_at: str
    seconds: str
    command: str
    reason: str

    def cells(self) -> tuple[str, ...]:
        return msgspec.structs.astuple(self)


def digest_of(command: str) -> str:
    return hashlib.blake2b(command.encode(), digest_size=3).hexdigest()


def in_one_line(reasons: tuple[str, ...]) -> str:
    return "; ".join(reasons).replace("|", "/").replace("\n", " ")[:160]


def row_of(result: Result, tree: str) -> Row:
    day, _, rest = result.finished_at.partition("T")
    return Row(
        result.claim,
        result.verdict,
        tree,
        f"{day} {rest[:5]}",
        f"{result.seconds:.0f}",
        digest_of(result.command),
        in_one_line(result.reasons),
    )


def stored(store: Path) -> list[Row]:
    """Everything that was proved here, on any tree."""
    found = sorted(store.glob("*/*.json"))
    return [row_of(msgspec.json.decode(file.read_bytes(), type=Result), file.parent.name) for file in found]


def recorded(text: str) -> list[Row]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(*row) for row in cells if len(row) == len(COLUMNS) and row[1] in VERDICTS]


def merged(claims: list[Claim], rows: list[Row]) -> list[Row]:
    """One row a claim, in their order: the newest result of its present command."""
    newest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.finished_at):
        newest[f"{row.claim} {row.command}"] = row
    table = []
    for claim in claims:
        command = digest_of(claim.command)
        unproved = Row(claim.id, OPEN, "", "", "", command, "")
        table.append(newest.get(f"{claim.id} {command}", unproved))
    return table


def line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |\n"


def write(file: Path, claims: list[Claim], store: Path) -> list[Row]:
    known = recorded(file.read_text()) if file.exists() else []
    table = merged(claims, known + stored(store))
    rule = line(tuple("---" for _ in COLUMNS))
    file.write_text(HEAD + line(COLUMNS) + rule + "".join(line(row.cells()) for row in table))
    return table
