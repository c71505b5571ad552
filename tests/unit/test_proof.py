"""The proof runner: what it believes, what it remembers, what it says about a broken claims file."""

from __future__ import annotations

import json
import re
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tools.proof.__main__ import main
from tools.proof.claims import Claim, ClaimsError, load, pick
from tools.proof.expectation import Comparison, Expect, judge
from tools.proof.ledger import Ledger, tree_key
from tools.proof.record import recorded, write
from tools.proof.runner import prove, run

DOCUMENT = json.dumps({"violations": 0, "rows": [{"ours": 0.9}, {"ours": 1.2}], "digest": "ab"})


def claim(command: str, **more: object) -> Claim:
    fields = {"id": "core.x", "area": "core", "sentence": "s", "estimate_s": 1, "command": command, **more}
    return msgspec.convert(fields, Claim)


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        ("violations == 0", 0),
        ("violations > 0", 1),
        ("rows.*.ours >= 0.9", 0),
        ("rows.*.ours >= 1", 1),
        ("rows.1.ours > 1", 0),
        ("rows.# == 2", 0),
        ('digest == "ab"', 0),
        ('digest != "ab"', 1),
        ("digest < 3", 1),  # a string has no order with a number: a reason, not an exception
        ("rows.7.ours > 0", 1),
        ("missing.key == null", 1),
    ],
)
def test_json_expectations(line: str, reasons: int) -> None:
    assert len(Comparison.parse(line).reasons_against(json.loads(DOCUMENT))) == reasons


def test_judge_reads_the_last_json_line() -> None:
    assert judge(Expect(json=("violations == 0",)), 0, f"talk\n{DOCUMENT}\n") == []
    assert judge(Expect(json=("violations == 0",)), 0, "talk\n") == ["stdout has no JSON"]


def test_judge_exit_code_and_regex() -> None:
    assert judge(Expect(exit=3, match="^done"), 3, "x\ndone") == []
    assert len(judge(Expect(match="^done"), 1, "not done")) == 2


def test_a_claim_passes_or_fails_by_its_command(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert prove(claim("true"), tmp_path, ledger).verdict == "passed"
    failed = prove(claim("echo why >&2; exit 4"), tmp_path, ledger)
    assert (failed.verdict, failed.reasons) == ("failed", ("exit code 4, not 0",))
    assert Path(failed.log).read_text() == "why\n"
    assert prove(claim("false | true"), tmp_path, ledger).verdict == "failed"


def test_a_missing_program_skips(tmp_path: Path) -> None:
    result = prove(claim("true", needs=["no-such-program"]), tmp_path, Ledger(tmp_path))
    assert (result.verdict, result.reasons) == ("skipped", ("no-such-program is not installed",))


def test_a_claim_over_its_limit_ends_with_its_children(tmp_path: Path) -> None:
    result = prove(claim("sleep 60 & echo $!; wait", timeout_s=0.3), tmp_path, Ledger(tmp_path))
    assert result.verdict == "failed"
    assert "not done after" in result.reasons[0]
    child = int(Path(result.log).read_text())
    status = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 10  # it is killed, and ends when it gets its turn
    while status.exists() and status.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_passed_is_kept_and_failed_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("")
    ledger = Ledger(tmp_path / "store")
    good, bad = claim("echo g >> count", id="good"), claim("echo b >> count; false", id="bad")
    said: list[str] = []
    for again in (False, False, True):
        verdicts = [r.verdict for r in run([good, bad], tmp_path, ledger, again, said.append)]
        assert verdicts == ["passed", "failed"]
    assert (tmp_path / "count").read_text().split() == ["g", "b", "b", "g", "b"]
    assert any("passed before" in line for line in said)


def test_a_changed_command_is_run_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.put(prove(claim("true"), tmp_path, ledger))
    assert ledger.get("core.x", "true") is not None
    assert ledger.get("core.x", "true # more") is None


def test_tree_key_changes_with_the_tree(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    clean = tree_key(tmp_path)
    (tmp_path / "new").write_text("1")
    new = tree_key(tmp_path)
    (tmp_path / "new").write_text("2")
    assert "+" not in clean
    assert len({clean, new, tree_key(tmp_path)}) == 3


def test_every_mistake_of_the_file_is_named(tmp_path: Path) -> None:
    entry = '[[claim]]\nid="{}"\narea="a"\nsentence="s"\ncommand="true"\nestimate_s={}\nexpect={}\n'
    path = tmp_path / "claims.toml"
    path.write_text(
        entry.format("Bad Id", 1, "{}")
        + entry.format("b", 0, '{ json = ["x ~ 1"] }')
        + entry.format("b", 1, '{ match = "(" }')
    )
    with pytest.raises(ClaimsError) as error:
        load(path)
    assert len(str(error.value).splitlines()) == 5


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text('[[claim]]\nid = "a"\ncomand = "true"\n')
    with pytest.raises(ClaimsError):
        load(path)


def test_the_real_claims_are_well_formed() -> None:
    claims = load()
    assert claims
    assert all(claim.id.partition(".")[0] == claim.area for claim in claims)
    assert pick(claims, ("repository",)) == [c for c in claims if c.area == "repository"]
    assert pick(claims, ("no-such",)) == []


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(
        '[[claim]]\nid = "a.json"\narea = "a"\nsentence = "s"\nestimate_s = 1\n'
        'command = "echo talk; echo [7]"\nexpect = { json = ["0 == 7"] }\n'
    )
    arguments = ["--claims", str(path), "--store", str(tmp_path / "store"), "-o", "json"]
    listed = CliRunner().invoke(main, [*arguments, "--list"])
    ran = CliRunner().invoke(main, arguments)
    assert json.loads(listed.stdout)["open"] == 1
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["passed"] == 1
    assert CliRunner().invoke(main, [*arguments, "--only", "b"]).exit_code == 2


def test_the_files_that_claims_name_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    commands = "\n".join(claim.command for claim in load(root / "tools" / "proof" / "claims.toml"))
    files = set(re.findall(r"\b(?:tests|bench|tools)/[\w/]+\.\w+", commands))
    modules = set(re.findall(r"python -m ((?:tests|bench|tools)[.\w]*)", commands))
    assert len(files) > 20 and len(modules) > 20
    assert not {name for name in files if not (root / name).exists()}
    assert not {name for name in modules if find_spec(name) is None}


def test_the_record_keeps_the_newest_result_of_each_claim(tmp_path: Path) -> None:
    """Results of several trees and of an earlier record add up; a changed command has none."""
    file, store = tmp_path / "proof.md", tmp_path / "store"
    first, second = claim("echo one", id="core.one"), claim("false", id="core.two")

    def prove_into(tree: str, which: Claim) -> None:
        ledger = Ledger(store / tree)
        ledger.put(prove(which, tmp_path, ledger))

    prove_into("aaa", first)
    assert [row.verdict for row in write(file, [first, second], store)] == ["passed", "open"]
    (store / "aaa" / "core.one.json").unlink()  # another machine: only the record knows
    prove_into("bbb", second)
    rows = write(file, [first, second], store)
    assert [(row.claim, row.verdict, row.tree) for row in rows] == [
        ("core.one", "passed", "aaa"),
        ("core.two", "failed", "bbb"),
    ]
    assert recorded(file.read_text()) == rows
    changed = claim("echo other", id="core.one")
    assert [row.verdict for row in write(file, [changed], store)] == ["open"]
