"""`python -m tools.pages`: the words of every page of docs/, and how much of it is something to copy.

A guide that is mostly prose is not copied from. What stands in a block of code, and the commands between
backquotes in a table, can be. Ends with 1 where the guides' median is over MOST_WORDS or under LEAST_SHARE.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = "howto"  # all of it are guides
GUIDES = (
    "tutorial",
    "client",
    "durable",
    "spark",
    "pipeline",
    "page",
    "channels",
    "dynatops",
    "onehop",
    "softlinks",
)
MOST_WORDS = 900
LEAST_SHARE = 0.15
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"`[^`]+`")


class Page(NamedTuple):
    name: str
    words: int
    copied: int  # of these

    @property
    def share(self) -> float:
        return self.copied / self.words if self.words else 0.0


def measure(name: str, text: str) -> Page:
    blocks = BLOCK.findall(text)
    tables = [line for line in BLOCK.sub("", text).splitlines() if line.startswith("|")]
    cells = [cell for line in tables for cell in CELL.findall(line)]
    return Page(name, len(text.split()), sum(len(part.split()) for part in (*blocks, *cells)))


def is_guide(page: Page) -> bool:
    return page.name in GUIDES or page.name.startswith(f"{FOLDER}/")


def main() -> int:
    paths = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / FOLDER).glob("*.md"))]
    pages = [measure(str(path.relative_to(DOCS).with_suffix("")), path.read_text()) for path in paths]
    for page in pages:
        kind = "guide" if is_guide(page) else ""
        print(f"{page.name:<24}{page.words:>6} words {100 * page.share:>4.0f} % to copy  {kind}")
    guides = [page for page in pages if is_guide(page)]
    words = statistics.median(page.words for page in guides)
    share = statistics.median(page.share for page in guides)
    print(
        f"guides' median: {words:.0f} words (at most {MOST_WORDS}), {100 * share:.0f} % to copy (at least 15)"
    )
    return 0 if words <= MOST_WORDS and share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
