"""`pubctl top`: the engine of the page in a terminal. One look a second; only cells that changed are drawn.

Widths are fixed and rows keep their place while the order is the same: a table that measures itself anew at
every change takes most of a core.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import DataTable, Input, Static

from tools.pubctl.failure import Failure
from tools.web import views
from tools.web.engine import Engine
from tools.web.views import Row, Rows

HELP = """
  b brokers   l links   c clients   p publishers   e events   x topology
  / only rows with   s next sort column   r reverse   o only trouble
  Enter open a broker: its links, then its clients   Esc back
  Space freeze   + - interval   w write what is seen as JSON   T trace   ? help   q quit
"""
TITLES = {"b": "brokers", "l": "links", "c": "clients", "p": "publishers", "e": "events", "x": "topology"}
ROWS_MOST = 400


class Top(App[None]):
    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; text-style: bold; } #sub { height: 1; color: $text-muted; }
    DataTable { height: 1fr; } #line { display: none; height: 3; } #help { display: none; height: auto; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"view('{key}')", title) for key, title in TITLES.items()),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("o", "trouble", "only trouble"),
        Binding("slash", "filter", "filter"),
        Binding("space", "freeze", "freeze"),
        Binding("plus,equals_sign", "slower(2.0)", "slower"),
        Binding("minus", "slower(0.5)", "faster"),
        Binding("w", "write", "write"),
        Binding("T", "trace", "trace"),
        Binding("question_mark", "help", "help"),
        Binding("escape", "up", "back", priority=True),
        Binding("q,ctrl+c", "quit", "quit", priority=True),
    ]

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.view = "b"
        self.only = ""  # of one broker
        self.words = ""
        self.column, self.down = 0, False
        self.trouble = self.frozen = False
        self.asking = ""  # what the line is for
        self._seen: list[Row] = []
        self._columns: tuple[views.Column, ...] = ()
        self._looking = False
        self._asked: dict[str, list[dict[str, Any]]] = {"c": [], "p": []}
        self._path: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("connecting", id="head", markup=False)
        yield Static("", id="sub", markup=False)
        yield Static(HELP, id="help", markup=False)
        yield Container(DataTable(cursor_type="row", zebra_stripes=False), id="table")
        yield Input(id="line")

    def on_mount(self) -> None:
        self.table.focus()
        self.timer = self.set_interval(self.engine.every_s, self.look)
        self.look()

    @property
    def table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    # --- looking ------------------------------------------------------------------------------------

    def look(self) -> None:
        if not self._looking and not self.frozen:
            self._looking = True
            self.run_worker(self._look, thread=True)

    def _look(self) -> None:
        """In a thread of its own: a broker that is slow to answer does not hold up the keys."""
        try:
            self.engine.look(time.time())
            if self.view == "c":
                found = self.engine.source.ask("client.ls", limit=1000).body["brokers"]
                self._asked["c"] = [{"broker": r["name"], **row} for r in found for row in r.get("rows", [])]
            elif self.view == "p":
                self._asked["p"] = self.engine.source.ask("relocate.show").body.get("publishers", [])
        except Failure:
            pass
        finally:
            self._looking = False
        if self.is_running:
            self.call_from_thread(self.draw)

    def rows(self) -> Rows:
        if self.view == "l":
            return views.links(self.engine, self.only)
        if self.view == "c":
            return views.clients(self._asked["c"], self.only)
        if self.view == "p":
            return views.publishers(self._asked["p"])
        if self.view == "e":
            return views.events(self.engine, self.only)
        return views.tree(self.engine) if self.view == "x" else views.brokers(self.engine)

    # --- drawing ------------------------------------------------------------------------------------

    def draw(self) -> None:
        found = self.rows()
        self.column = min(self.column, len(found.columns) - 1)
        rows = (
            found.rows
            if self.view == "x"
            else views.ordered(found, self.column, self.down, self.words, self.trouble)
        )
        rows = rows[:ROWS_MOST]
        self._heads(len(rows), len(found.rows))
        if found.columns != self._columns:
            self.table.clear(columns=True)
            for number, column in enumerate(found.columns):
                self.table.add_column(column.title, width=column.width, key=str(number))
            self._columns, self._seen = found.columns, []
        if [row.key for row in rows] == [row.key for row in self._seen]:
            self._change(rows)
        else:
            self._again(rows)
        self._seen = rows

    def _heads(self, shown: int, there: int) -> None:
        state = self.engine.state
        lost = "" if state.state == "ok" else f"   [{state.state}: {state.reason}]"
        self.query_one("#head", Static).update(views.headline(self.engine) + lost)
        order = f"by {self._columns[self.column].title}{' ▼' if self.down else ' ▲'}" if self._columns else ""
        parts = [TITLES[self.view], f"of {self.only}" if self.only else "", f"{shown} of {there}", order]
        parts += [f"only {self.words!r}" if self.words else "", "only trouble" if self.trouble else ""]
        parts += ["frozen" if self.frozen else f"every {self.engine.every_s:g} s", "? help"]
        self.query_one("#sub", Static).update("  ".join(part for part in parts if part))

    def _cell(self, row: Row, number: int) -> Text:
        text = Text(
            row.cells[number], no_wrap=True, justify="left" if self._columns[number].text else "right"
        )
        if row.trouble:
            text.stylize("bold red")
        return text

    def _change(self, rows: list[Row]) -> None:
        for row, before in zip(rows, self._seen):
            for number, (now, then) in enumerate(zip(row.cells, before.cells)):
                if now != then or row.trouble != before.trouble:
                    self.table.update_cell(row.key, str(number), self._cell(row, number), update_width=False)

    def _again(self, rows: list[Row]) -> None:
        table = self.table
        at = self._seen[table.cursor_row].key if 0 <= table.cursor_row < len(self._seen) else ""
        table.clear()
        for row in rows:
            table.add_row(*(self._cell(row, number) for number in range(len(row.cells))), key=row.key)
        places = [row.key for row in rows]
        if at in places:
            table.move_cursor(row=places.index(at))

    # --- keys ---------------------------------------------------------------------------------------

    def action_view(self, view: str) -> None:
        self.view, self.only, self.column, self.down = view, "", 0, False
        self._path = []
        self.draw()
        self.look()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """A broker opens to its links, these to its clients."""
        row = self._seen[event.cursor_row] if event.cursor_row < len(self._seen) else None
        if row is None or not row.opens:
            return
        self._path.append(self.view)
        self.only = self.only or row.opens
        self.view = "c" if self.view == "l" else "l"
        self.column = 0
        self.draw()
        self.look()

    def action_up(self) -> None:
        line = self.query_one("#line", Input)
        if line.display:
            line.display = False
            self.table.focus()
        elif self.query_one("#help", Static).display:
            self.action_help()
        elif self._path:
            self.view = self._path.pop()
            self.only = "" if not self._path else self.only
            self.draw()
        else:
            self.words = ""
            self.draw()

    def action_sort(self) -> None:
        self.column = (self.column + 1) % max(1, len(self._columns))
        self.down = bool(self._columns) and not self._columns[self.column].text
        self.draw()

    def action_reverse(self) -> None:
        self.down = not self.down
        self.draw()

    def action_trouble(self) -> None:
        self.trouble = not self.trouble
        self.draw()

    def action_freeze(self) -> None:
        self.frozen = not self.frozen
        self.draw()

    def action_slower(self, factor: float) -> None:
        self.engine.every_s = min(60.0, max(0.25, self.engine.every_s * factor))
        self.timer.stop()
        self.timer = self.set_interval(self.engine.every_s, self.look)
        self.draw()

    def action_help(self) -> None:
        place = self.query_one("#help", Static)
        place.display = not place.display

    def action_filter(self) -> None:
        self._line("filter", "only rows with", self.words)

    def action_trace(self) -> None:
        self._line("trace", "class=STOCK volume=6200", "")

    def _line(self, asking: str, hint: str, value: str) -> None:
        line = self.query_one("#line", Input)
        self.asking, line.placeholder, line.value, line.display = asking, hint, value, True
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = False
        self.table.focus()
        if self.asking == "filter":
            self.words = event.value.strip()
            self.draw()
        elif event.value.strip():
            self._trace(event.value)

    def _trace(self, words: str) -> None:
        from tools.pubctl import attributes

        try:
            content = msgspec.json.encode(attributes.read(tuple(words.split()))).decode()
            path = self.engine.source.ask("trace", attributes=content).body["path"]
        except Failure as failure:
            self.notify(str(failure), severity="error")
            return
        reached = [row["broker"] for row in path if row.get("client_count")]
        text = f"{' → '.join(row['broker'] for row in path)}; clients at {', '.join(reached) or 'none'}"
        self.notify(text, title="trace", timeout=15)

    def action_write(self) -> None:
        path = Path(f"top-{time.strftime('%H%M%S')}.json")
        titles = [column.title for column in self._columns]
        rows = [dict(zip(titles, row.values)) for row in self._seen]
        path.write_bytes(
            msgspec.json.format(msgspec.json.encode({"view": TITLES[self.view], "rows": rows}), indent=1)
        )
        self.notify(f"written to {path}")
