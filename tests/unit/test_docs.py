"""Every relative link of our Markdown leads to a file, and every make target that it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
TARGET = re.compile(r"`(?:\$ )?make ([a-z-]+)")


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *ROOT.glob("client/*.md"), *(ROOT / "docs").rglob("*.md")]


def dead_links(page: Path, text: str) -> Iterator[str]:
    for link in LINK.findall(text):
        if not (page.parent / link).exists():
            yield f"{page.relative_to(ROOT)}: {link}"


def test_links_lead_somewhere() -> None:
    found = [dead for page in pages() for dead in dead_links(page, page.read_text())]
    assert len(pages()) > 5
    assert not found, "\n" + "\n".join(found)


def test_a_dead_link_is_seen() -> None:
    text = "[a](LICENSE) [b](no-such.md#part) [c](https://example.org) [d](#here)"
    assert list(dead_links(ROOT / "README.md", text)) == ["README.md: no-such.md"]


def test_named_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in pages() for name in TARGET.findall(page.read_text())}
    assert named
    assert named <= targets
