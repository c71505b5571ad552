"""What Spark says when a job fails, as one sentence with an exit code.

Errors come through two languages and three processes as text; what our own code raised is found in it by
name. A row that cannot be published raises a marked text, from which file and line are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import msgspec

from pipeline.source import line_number
from pipeline.trouble import FAILED, NOT_ALLOWED, PARTIAL, UNREACHABLE, USAGE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import Column

MARK, END = "<<row ", " row>>"
LINE_CHARS = 2000  # of a bad line that travel with its error
OURS = {
    "Unreachable": UNREACHABLE,
    "NotAllowed": NOT_ALLOWED,
    "Timeout": PARTIAL,
    "OptionError": USAGE,
    "SchemaError": USAGE,
    "FilterError": USAGE,
    "RowError": FAILED,
    "StageLost": FAILED,
    "JavaMissing": FAILED,
    "Closed": UNREACHABLE,
}
_EMPTY = re.compile(r"An error occurred while calling |Job aborted|\s*at ")
_NAMED = re.compile(rf"(?:grapevine\.[\w.]+|\b)\.?({'|'.join(OURS)}): (.+)")


class BadRow(msgspec.Struct):
    file: str
    line: str  # the line itself, or the number of a row where there are no lines
    problem: str

    def __str__(self) -> str:
        path = unquote(urlparse(self.file).path)
        if self.file.endswith(".parquet") or self.line.isdigit():
            return f"{path}, row {self.line}: {self.problem}"
        number = line_number(path, self.line, LINE_CHARS)
        return f"{path}, line {number or '?'}: {self.problem}"


def raised(file: Column, line: Column, problem: Column) -> Column:
    """An expression that fails the job with this row."""
    from pyspark.sql import functions as F

    row = F.struct(
        file.alias("file"),
        F.substring(F.coalesce(line, F.lit("")), 1, LINE_CHARS).alias("line"),
        problem.alias("problem"),
    )
    return F.raise_error(F.concat(F.lit(MARK), F.to_json(row), F.lit(END)))


def explained(error: BaseException, staged: bool) -> Trouble:
    """`staged`: rows were waiting for the whole batch, so none of a failed one was published."""
    if isinstance(error, Trouble):
        return error
    text = "\n".join(texts(error))
    start, end = text.find(MARK), text.find(END)
    if 0 <= start < end:
        try:
            row = msgspec.json.decode(text[start + len(MARK) : end], type=BadRow)
            return Trouble(f"{row}; nothing of this batch was published" if staged else str(row), FAILED)
        except msgspec.MsgspecError:
            pass
    if found := _NAMED.findall(text):
        name, said = found[-1]
        return Trouble(said.strip(), OURS[name])
    lines = [line.lstrip(": ") for line in text.splitlines() if line.strip() and not _EMPTY.match(line)]
    return Trouble(f"Spark failed: {lines[0] if lines else type(error).__name__}", FAILED)


def texts(error: BaseException | None) -> Iterable[str]:
    while error is not None:
        yield str(error)
        java = getattr(error, "java_exception", None)
        if java is not None:
            yield str(java)
        error = error.__cause__ or error.__context__
