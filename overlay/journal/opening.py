"""From a directory to what a broker is given: recovery, the fold over what was found, a reader."""

from __future__ import annotations

from overlay.journal.contents import Contents
from overlay.journal.files import Files
from overlay.journal.journal import Opened
from overlay.journal.reading import Reader
from overlay.journal.recovery import Recovered, recover
from overlay.journal.writing import Writer


def open_journal(files: Files, incarnation: int) -> tuple[Writer, Opened]:
    """Everything that was acknowledged and can be read is in it, and is on disk under its own name."""
    found: Recovered = recover(files, incarnation)
    contents = Contents()
    for _, entries in found.entries:
        contents.replay(entries)
    contents.finish()
    lost = sum(last - first + 1 for first, last in contents.lost)
    for first, last in contents.lost:
        contents.custody.lose(first, last)
        contents.copies.lose(first, last)
        for stream in contents.streams.values():
            stream.log.lose(first, last)
    contents.lost.clear()
    opened = Opened(contents, found.next, Reader(files, found.writer), lost, found.torn)
    return found.writer, opened
