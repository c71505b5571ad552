"""The C files compile without a warning, and everybody who builds them means the same ones."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.fuzz.sanitized import ROOT, SOURCES, WARNINGS, compiler


@pytest.mark.skipif(shutil.which(compiler()[0]) is None, reason="no C compiler")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_warning(source: Path) -> None:
    words = [
        *compiler(),
        *WARNINGS,
        "-O2",
        "-fsyntax-only",
        f"-I{sysconfig.get_paths()['include']}",
        str(source),
    ]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_all_of_them_are_built() -> None:
    named = (ROOT / "hatch_build.py").read_text()
    keyed = (ROOT / "pyproject.toml").read_text()
    assert len(SOURCES) == 3
    for source in SOURCES:
        name = source.relative_to(ROOT).as_posix()
        assert f'"{name}"' in named and f'"{name}"' in keyed, name
