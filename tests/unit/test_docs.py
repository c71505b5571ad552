"""What the documents name exists: files behind links, make targets; and what the code names exists in them:
rows of docs/spec.md, rules of docs/decisions.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools import pages as measured

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


def references(word: str, number: str) -> dict[str, str]:
    """What the code refers to as `SPEC T2 and T3` or `DECISIONS 6 to 8, 12`, and one place where it does."""
    found = {}
    pattern = re.compile(rf"\b{word} ({number}(?:(?:,| and| to|, and) {number})*)\b")
    for folder in ("client", "overlay", "matching", "daemon", "tools", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for names in pattern.findall(path.read_text()):
                found |= {name: str(path.relative_to(ROOT)) for name in re.findall(number, names)}
    return found


def test_rows_that_the_code_names_are_in_the_spec() -> None:
    page = (ROOT / "docs" / "spec.md").read_text()
    rows = dict(re.findall(r"^\| ([A-Z]\d) \| .* \| (.*)\|$", page, re.MULTILINE))
    named = references("SPEC", r"[A-Z]\d")
    assert {"T1", "T2", "T3", "T5", "T8"} <= named.keys()
    assert not {row: place for row, place in named.items() if not rows.get(row, "").strip()}
    places = {place for where in rows.values() for place in re.findall(r"`([^`]+)`", where)}
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_rules_that_the_code_names_are_among_the_decisions() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text()
    rules = re.findall(r"^(\d+)\. ", page, re.MULTILINE)
    assert rules == [str(number) for number in range(1, len(rules) + 1)]
    named = references("DECISIONS", r"\d+")
    assert named
    assert not {rule: place for rule, place in named.items() if rule not in rules}


def test_the_walks_of_the_architecture_name_functions_that_exist() -> None:
    """docs/architecture.md follows a publication and a subscription by file and function."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([a-z_/]+\.py)` `([a-z_]+)`", text)
    assert len(named) > 20, "the walks are gone"
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text())
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in defined, f"{path} has no {function}"


def test_guides_are_short_and_can_be_copied_from() -> None:
    assert measured.main() == 0


def test_every_page_is_on_the_map() -> None:
    """docs/README.md names all but papers, decisions of architecture and itself."""
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "howto").glob("*.md")]
    names = {str(page.relative_to(ROOT / "docs")) for page in pages} - {"README.md"}
    assert names - linked <= {"spec.md"}


def test_the_first_screen_of_the_readme_says_what_to_type_and_how_long_it_takes() -> None:
    (block,) = re.findall(
        r"```\n(.*?)```", "\n".join((ROOT / "README.md").read_text().splitlines()[:24]), re.DOTALL
    )
    said = dict(line.split("#", 1) for line in block.splitlines())
    assert {"make demo", "make test", "make setup"} <= {words.strip() for words in said}
    assert all(re.search(r"minute", text) for text in said.values()), said
    assert "pubctl" not in {words.strip() for words in said}, "without a word it is no job"
