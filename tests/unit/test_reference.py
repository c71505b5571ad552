"""docs/reference is what `python -m tools.reference` writes, and what the code has."""

from __future__ import annotations

import ast
import re

import click

from tools.pubctl.running import root
from tools.reference import PAGES, ROOT, pages


def test_the_committed_pages_are_the_generated_ones() -> None:
    for name, text in pages().items():
        assert (PAGES / name).read_text() == text, f"{name}: run python -m tools.reference"


def test_every_event_that_the_code_names_is_there() -> None:
    listed = set(re.findall(r"^\| `([a-z.]+)` ", (PAGES / "events.md").read_text(), re.MULTILINE))
    for folder in ("overlay", "daemon"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "event" and node.args[1:]:
                    kind = node.args[1]
                    assert not isinstance(kind, ast.Constant) or kind.value in listed, (path, kind.value)
    assert {"soft.promoted", "soft.demoted"} <= listed  # their kind is a variable


def test_every_command_and_option_is_there() -> None:
    page = (PAGES / "pubctl.md").read_text()
    for name in root.list_commands(click.Context(root)):
        assert f"## pubctl {name}\n" in page, name
    sub = root.get_command(click.Context(root), "sub")
    assert sub is not None
    section = page.split("## pubctl sub\n")[1].split("## ")[0]
    for option in sub.params:
        if (
            isinstance(option, click.Option)
            and not option.hidden
            and option.name not in {o.name for o in root.params}
        ):
            assert option.opts[-1] in section, option.opts
