"""The house style that a machine can keep: sizes, and words that have no place in the tree.

An exception is a line in EXCEPTIONS with its reason, so that it is seen in review. Files under version
control and new ones are read alike; binary files and the lock are not.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_MEDIAN = 10
CORE_LINES_MAX = 250

# path, or path:function -> why it may be longer
EXCEPTIONS: dict[str, str] = {}

# Unfinished work belongs in the tracker, and a path of somebody's machine in nobody's file.
UNWANTED = re.compile(
    r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b"
    r"|(?<![\w./<-])/(?:work|root|home/\w+|opt/(?:pypi|wheels))/\w+"
    r"|/tmp/(?!\$)\w*gv\b"
)
UNREAD = (".lock", ".png", ".svg", ".ico", ".gz", ".zst", ".parquet", ".woff2", ".min.js", ".min.css")


def files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if not name.endswith(UNREAD) and (ROOT / name).is_file()]


def long_functions(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.name, node.lineno, lines


def unwanted_words(text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.splitlines(), 1)
    return [(number, match[0]) for number, line in lines for match in UNWANTED.finditer(line)]


def test_no_file_is_too_long() -> None:
    long = []
    for path in files():
        if path.suffix == ".py":
            name, lines = str(path.relative_to(ROOT)), len(path.read_text().splitlines())
            if lines > FILE_LINES_MAX and name not in EXCEPTIONS:
                long.append(f"{name}: {lines} lines")
    assert not long, "\n" + "\n".join(long)


def test_the_core_stays_small() -> None:
    """What every overlay is built on, in one sitting."""
    assert len((ROOT / "overlay" / "core.py").read_text().splitlines()) <= CORE_LINES_MAX


def test_most_functions_are_short() -> None:
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for package in ("overlay", "matching", "daemon")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert median(lengths) < FUNCTION_LINES_MEDIAN


def test_no_function_is_too_long() -> None:
    long = []
    for path in files():
        if path.suffix != ".py":
            continue
        name = str(path.relative_to(ROOT))
        for function, line, lines in long_functions(ast.parse(path.read_text())):
            if f"{name}:{function}" not in EXCEPTIONS:
                long.append(f"{name}:{line}: {function} has {lines} lines")
    assert not long, "\n" + "\n".join(long)


def test_no_unwanted_words() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}:{line}: {word!r}" for line, word in unwanted_words(text)]
    assert not found, "\n" + "\n".join(found)


def test_exceptions_are_still_needed() -> None:
    gone = [name for name in EXCEPTIONS if not (ROOT / name.partition(":")[0]).exists()]
    assert not gone


def test_long_function_is_seen() -> None:
    source = "async def long():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
    assert [name for name, _, _ in long_functions(ast.parse(source))] == ["long"]
    assert not list(long_functions(ast.parse(source.replace("    x = 1\n", "", 1))))


def test_unwanted_words_are_seen() -> None:
    machine = "/" + "work/"
    text = "fine: the workload of tree/" + "root\n# TO" + f"DO later\nopen('{machine}x')\n"
    assert unwanted_words(text) == [(2, "TO" + "DO"), (3, machine + "x")]
