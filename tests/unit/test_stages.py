"""The stages of `make test`: counted rightly, failing rightly, and with the budget that the guide prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import stages
from tests.stages import STAGES, Outcome, Stage, clock, closing_line, main, read_counts, run_all, run_pytest

ROOT = Path(__file__).resolve().parents[2]
JUNIT = '<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>'


def test_budgets_add_up_to_40_minutes_and_stand_in_the_guide() -> None:
    assert sum(stage.budget_s for stage in STAGES) == 40 * 60
    guide = (ROOT / "docs" / "contributing.md").read_text()
    printed = dict(re.findall(r"^\| (\w+) \| (\d+:\d\d) \|", guide, re.MULTILINE))
    assert printed == {stage.name: clock(stage.budget_s) for stage in STAGES}


def test_counts_of_a_report(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(JUNIT)
    counts = read_counts(tmp_path / "report.xml")
    assert counts == {"passed": 3, "failed": 3, "skipped": 3}
    outcomes = [Outcome(STAGES[1], counts=counts), Outcome(STAGES[2], counts={"passed": 1})]
    assert closing_line(outcomes) == "4 passed, 3 failed, 3 skipped"


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert "unit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("report", "code", "ok", "counts"),
    [
        ('tests="2" skipped="1"', 0, True, {"passed": 1, "failed": 0, "skipped": 1}),
        ('tests="2" failures="1"', 1, False, {"passed": 1, "failed": 1, "skipped": 0}),
        ('tests="0"', 5, True, {}),
        ('tests="1"', 3, False, {"passed": 1, "failed": 1, "skipped": 0}),  # the run broke after its tests
        (None, 127, False, {"failed": 1}),
    ],
)
def test_a_stage_fails_when_its_run_does(
    report: str | None,
    code: int,
    ok: bool,
    counts: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program in uv's place writes the report and exits as pytest would."""
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    write = f"echo '<testsuites><testsuite {report}/></testsuites>' > {tmp_path}/x.xml" if report else "true"
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\n{write}\nexit {code}\n")
    program.chmod(0o755)
    assert run_pytest(Stage("x", 1), str(program)) == (ok, counts, [])


def test_stages_of_one_core_run_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the first two waits for the other to have begun; the third begins when both have ended."""
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    program = tmp_path / "uv"
    program.write_text(
        f"""#!/bin/sh
cd {tmp_path}
for last; do :; done
touch began-$last
case $last in
a) until [ -e began-b ]; do sleep 0.01; done ;;
b) until [ -e began-a ]; do sleep 0.01; done ;;
c) [ -e ended-a ] && [ -e ended-b ] || exit 3 ;;
esac
echo said by $last
echo '<testsuites><testsuite tests="1"/></testsuites>' > $last.xml
touch ended-$last
"""
    )
    program.chmod(0o755)
    some = [Stage(name, 9, (name,), one_core=name != "c") for name in "abc"]
    outcomes = list(run_all(some, str(program), "true"))
    assert [o.stage.name for o in outcomes if o.ok] == ["a", "b", "c"]
    assert "== a ==\nsaid by a\n" in capsys.readouterr().out


def test_nothing_runs_without_its_setup() -> None:
    outcomes = list(run_all([Stage("setup", 1), Stage("x", 1)], "true", "false"))
    assert [(o.stage.name, o.ok) for o in outcomes] == [("setup", False)]


def test_a_stage_without_a_folder_has_no_tests() -> None:
    assert run_pytest(Stage("x", 1, ("-m", "not spark", "tests/no-such-folder")), "false") == (True, {}, [])


PASS = '<testcase classname="tests.system.test_a" name="test_well"/>'
FAIL = '<testcase classname="tests.system.test_a" name="test_ill[2]"><failure/></testcase>'


@pytest.mark.parametrize(
    ("tries", "again", "ok", "counts", "unsteady"),
    [
        (2, f'tests="1">{PASS}', True, {"passed": 2, "failed": 0, "skipped": 0}, 1),
        (2, f'tests="1" failures="1">{FAIL}', False, {"passed": 1, "failed": 1, "skipped": 0}, 0),
        (1, f'tests="1">{PASS}', False, {"passed": 1, "failed": 1, "skipped": 0}, 0),
    ],
)
def test_a_second_try_is_for_few_and_is_told(
    tries: int,
    again: str,
    ok: bool,
    counts: dict[str, int],
    unsteady: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    first = f'<testsuites><testsuite tests="2" failures="1">{PASS}{FAIL}</testsuite></testsuites>'
    (tmp_path / "first").write_text(first)
    (tmp_path / "second").write_text(f"<testsuites><testsuite {again}</testsuite></testsuites>")
    program = tmp_path / "uv"
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
case "$*" in
*again.xml*) cp {tmp_path}/second {tmp_path}/x.again.xml; ! grep -q "<failure" {tmp_path}/second ;;
*) cp {tmp_path}/first {tmp_path}/x.xml; exit 1 ;;
esac
"""
    )
    program.chmod(0o755)
    ill = "tests/system/test_a.py::test_ill[2]"
    assert run_pytest(Stage("x", 1, tries=tries), str(program)) == (ok, counts, [ill] * unsteady)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == tries
    assert tries == 1 or calls[1].endswith(ill)
