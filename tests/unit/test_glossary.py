"""docs/glossary.md: a word stands once, and the file that it names is there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:2] == "| "
]


def test_files_are_there() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([\w/]+\.py)`", row[-1])}
    assert len(named) > 30
    homes = (ROOT, ROOT / "overlay", ROOT / "client" / "grapevine")
    assert not sorted(name for name in named if not any((home / name).is_file() for home in homes))


def test_a_word_stands_once() -> None:
    words = Counter(word.strip() for row in ROWS for word in row[0].split(",") if row[0] not in HEADS)
    assert not [word for word, times in words.items() if times > 1]


HEADS = ("word", "word in the code")
