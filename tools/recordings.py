"""`python -m tools.recordings [FOLDER]`: types the commands of docs/tutorial.md in a terminal and draws what
came, when it came, as one moving picture for each part of the page (docs/pictures/tutorial-N.svg).

A line appears when it was printed; a pause of more than PAUSE_S is shortened to that. Needs nothing beside a
browser to look at it: the SVG moves by its own style sheet, again and again, and stands still for readers who
have asked their system for less motion. `make recordings` runs it in a network of its own.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 132, 40
PAUSE_S = 1.2
TYPING_S = 0.04  # a character
HOLD_S = 5.0  # at the end, before it begins again
MOST_LINES = 16  # of one command, the rest is counted
SIZE, LEADING, MARGIN = 13.0, 18.0, 14.0
WIDTH = SIZE * 0.6
COLOURS = {"1": "#ffffff", "2": "#8a919e", "31": "#f4778c", "32": "#9ece6a", "33": "#e0af68", "34": "#7aa2f7"}
COLOURS |= {"35": "#bb9af7", "36": "#7dcfff", "90": "#8a919e"}
FONTS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
PLAIN, GROUND = "#c8ccd4", "#1a1b26"
_CODE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
_OVERWRITTEN = re.compile(r".*(?:\r|\x1b\[2K)")  # a bar that has moved on


class Line(NamedTuple):
    at_s: float
    text: str  # with the terminal's colours


# --- what is typed -----------------------------------------------------------------------------------


def parts(page: str) -> list[list[str]]:
    """The commands of each part of the page that types some."""
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        consoles = re.findall(r"```console\n(.*?)```", part, re.DOTALL)
        typed = [line for console in consoles for line in re.findall(r"^\$ (.*)$", console, re.MULTILINE)]
        found.append([line for line in typed if not line.startswith(". .venv/")])
    return found


def shown(command: str) -> bool:
    """Waiting is not worth a line."""
    return not command.startswith("sleep ")


# --- a terminal --------------------------------------------------------------------------------------


def run(command: str, folder: Path) -> Iterator[Line]:
    """What a command prints on a terminal, and when."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    began, rest = monotonic(), ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"HOME": str(folder), "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    while True:
        ready, _, _ = select.select([ours], [], [], 0.05)
        try:
            read = os.read(ours, 65_536).decode("utf-8", "replace") if ready else None
        except OSError:  # the other end is closed
            read = ""
        if read is None:
            if process.poll() is None:
                continue
            read = ""
        *lines, rest = (rest + read).replace("\r\n", "\n").split("\n")
        for line in lines:
            yield Line(monotonic() - began, _OVERWRITTEN.sub("", line))
        if not read:
            break
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{command}: ended with {process.returncode}: {rest}")


def record(commands: list[str], folder: Path) -> list[Line]:
    """One part, with pauses cut short."""
    lines: list[Line] = []
    now = 0.0
    for command in commands:
        print(f"$ {command}", flush=True)
        heard = list(run(command, folder))
        if not shown(command):
            now += PAUSE_S
            continue
        lines.append(Line(now, f"\x1b[32m$\x1b[0m {command}"))
        now += 0.3 + TYPING_S * len(command)
        before = 0.0
        for line in heard[:MOST_LINES]:
            now += min(line.at_s - before, PAUSE_S)
            before = line.at_s
            lines.append(Line(now, line.text))
        if len(heard) > MOST_LINES:
            lines.append(Line(now, f"\x1b[2m... {len(heard) - MOST_LINES} lines more\x1b[0m"))
        now += PAUSE_S
    return lines


# --- a picture ---------------------------------------------------------------------------------------


def draw(lines: list[Line]) -> str:
    whole_s = lines[-1].at_s + HOLD_S
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * LEADING + 2 * MARGIN
    style = [
        f"text{{font:{SIZE:g}px {FONTS};white-space:pre;fill:{PLAIN}}}",
        *(_appears(number, line.at_s / whole_s, whole_s) for number, line in enumerate(lines)),
        "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
    ]
    texts = [
        f'<text class="l{number}" x="{MARGIN:g}" y="{y:g}">{spans(line.text)}</text>'
        for number, line in enumerate(lines)
        if (y := MARGIN + LEADING * (number + 0.75))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
            f"<style>{' '.join(style)}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
            *texts,
            "</svg>\n",
        ]
    )


def _appears(number: int, share: float, whole_s: float) -> str:
    """Nothing until its share of the time has passed; the first line is there from the beginning."""
    if share <= 0:
        return ""
    at = 100 * share
    frames = f"@keyframes k{number}{{0%,{at:.2f}%{{opacity:0}}{at + 0.01:.2f}%,100%{{opacity:1}}}}"
    return f"{frames} .l{number}{{animation:k{number} {whole_s:.1f}s infinite}}"


def spans(text: str) -> str:
    """A terminal's line: each stretch of one colour is a tspan."""
    drawn, colour, place = [], PLAIN, 0
    for code in _CODE.finditer(text):
        drawn.append(_span(text[place : code.start()], colour))
        place = code.end()
        if code[2] == "m":
            colour = next((COLOURS[n] for n in reversed(code[1].split(";")) if n in COLOURS), PLAIN)
    return "".join([*drawn, _span(text[place:], colour)])


def _span(text: str, colour: str) -> str:
    said = escape("".join(c for c in text if c >= " "), quote=False)
    return said if colour == PLAIN or not said else f'<tspan fill="{colour}">{said}</tspan>'


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else PICTURES
    page = PAGE.read_text()
    with TemporaryDirectory() as home:
        (topology,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
        (Path(home) / "seven.toml").write_text(topology)
        for number, commands in enumerate(parts(page), 1):
            (folder / f"tutorial-{number}.svg").write_text(draw(record(commands, Path(home))))


if __name__ == "__main__":
    main()
