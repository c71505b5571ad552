"""The moving pictures of the tutorial: drawn from what a terminal printed, and of the commands of today."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from tools.recordings import PAGE, PICTURES, Line, draw, parts, record, shown, spans


def words(svg: str) -> str:
    return "\n".join(
        "".join(text.itertext()) for text in ElementTree.fromstring(svg).iter() if "text" in text.tag
    )


def test_colours_of_a_terminal_are_those_of_the_picture() -> None:
    assert spans("a \x1b[32mb<c\x1b[0m d") == 'a <tspan fill="#9ece6a">b&lt;c</tspan> d'
    assert spans("\x1b[?25l\x1b[1;36mx\x1b[0m") == '<tspan fill="#7dcfff">x</tspan>'


def test_a_line_appears_when_it_was_printed_and_all_of_it_again() -> None:
    svg = draw([Line(0.0, "$ one"), Line(5.0, "two")])
    ElementTree.fromstring(svg)
    assert "@keyframes k1{0%,50.00%{opacity:0}50.01%,100%{opacity:1}} .l1{animation:k1 10.0s infinite}" in svg
    assert "k0" not in svg and "prefers-reduced-motion" in svg


def test_what_is_typed_is_run_on_a_terminal(tmp_path: Path) -> None:
    typed = ["sleep 0", r"test -t 1 && printf 'bar 1\r\033[2Kdone\n' && sleep 3 && echo end"]
    lines = record(typed, tmp_path)
    assert [spans(line.text) for line in lines][1:] == ["done", "end"]
    assert lines[-1].at_s - lines[-2].at_s < 2.0  # a pause is shortened


def test_the_committed_pictures_type_the_commands_of_the_tutorial() -> None:
    page = PAGE.read_text()
    for number, commands in enumerate(parts(page), 1):
        typed = re.findall(
            r"^\$ (.*)$", words((PICTURES / f"tutorial-{number}.svg").read_text()), re.MULTILINE
        )
        assert [unescape(line) for line in typed] == [line for line in commands if shown(line)], (
            "make recordings"
        )
        assert f"pictures/tutorial-{number}.svg" in page
