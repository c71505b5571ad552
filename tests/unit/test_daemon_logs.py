"""A line of the log is one line, whatever names are in it."""

from __future__ import annotations

import logging

import pytest

from daemon.logs import JournalLines, PlainLines


@pytest.mark.parametrize("form", [PlainLines("b1"), JournalLines("b1")])
def test_a_name_cannot_forge_a_line(form: logging.Formatter) -> None:
    query = "q\n<3>b1: everything is lost\r\x1b[31m\u2028end"
    record = logging.LogRecord("grapevine", logging.INFO, "", 0, "batch 1 of query %s waits", (query,), None)
    (line,) = form.format(record).splitlines()
    assert "b1: batch 1 of query q\\n<3>b1: everything is lost\\r\\x1b[31m\\u2028end waits" in line


def test_a_stack_has_lines_of_its_own() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("grapevine", logging.ERROR, "", 0, "failed", (), caught)
    lines = JournalLines("b1").format(record).splitlines()
    assert len(lines) > 3 and all(line.startswith("<3>b1: ") for line in lines)
