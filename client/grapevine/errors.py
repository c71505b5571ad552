"""Everything the library raises on purpose, as one tree.

`except grapevine.Error` catches all of it. Where Python has a class of its own for the same mistake
(ValueError, TimeoutError) the error is that too, so callers who know nothing of grapevine still
catch it. Arguments are kept in `args`: an error survives pickling on its way out of a worker process.
"""

from __future__ import annotations

from collections.abc import Iterable

SNIPPET_CHARS = 72


class Error(Exception):
    """Any error of this library."""


class FilterError(Error, ValueError):
    """A filter that cannot be read, or that is larger than the limits.

    `position` counts characters from 0; `expected` lists what could have stood there.
    """

    def __init__(self, message: str, position: int = 0, expected: Iterable[str] = (), text: str = "") -> None:
        super().__init__(message, position, tuple(expected), text)

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def position(self) -> int:
        return int(self.args[1])

    @property
    def expected(self) -> tuple[str, ...]:
        return tuple(self.args[2])

    @property
    def text(self) -> str:
        return str(self.args[3])

    def __str__(self) -> str:
        headline = f"{self.message} (at position {self.position})"
        return f"{headline}\n{caret(self.text, self.position)}" if self.text else headline


def caret(text: str, position: int) -> str:
    """The line around `position` and, below it, a mark under that character."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[begin : len(text) if end < 0 else end].expandtabs(1)
    column = position - begin
    shift = max(0, column - SNIPPET_CHARS * 2 // 3)
    shown = line[shift : shift + SNIPPET_CHARS]
    left, right = "..." if shift else "", "..." if len(line) > shift + SNIPPET_CHARS else ""
    return f"  {left}{shown}{right}\n  {' ' * (len(left) + column - shift)}^"


class Invalid(Error, ValueError):
    """An argument that cannot be used: a value that no publication carries, an option that does not exist."""


class NotAllowed(Error):
    """A role, an advertisement or a setting forbids it."""


class Unreachable(Error):
    """No broker of those given could be reached."""


class Timeout(Error, TimeoutError):
    """Not done in time; what was asked may still happen."""


class NoResponders(Error):
    """Nobody has subscribed to this request; told by the first broker, without waiting."""


class Undelivered(Error):
    """Publications that did not reach everybody: `ranges` of sequence numbers, both ends included."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        super().__init__(tuple((int(first), int(last)) for first, last in ranges))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.args[0])

    def __str__(self) -> str:
        spans = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)
        count = sum(last - first + 1 for first, last in self.ranges)
        return f"{count} publication{'s' if count != 1 else ''} not delivered everywhere: {spans}"


class Closed(Error):
    """The client or the subscription is closed."""


class ChannelError(Error):
    """A channel that does not exist, cannot be made, or has ended."""


class ParameterError(ChannelError, ValueError):
    """A value that a channel's parameter does not take."""

    def __init__(self, name: str, expected: str, given: object) -> None:
        super().__init__(name, expected, given)

    @property
    def name(self) -> str:
        return str(self.args[0])

    @property
    def expected(self) -> str:
        return str(self.args[1])

    @property
    def given(self) -> object:
        return self.args[2]

    def __str__(self) -> str:
        given = "nothing" if self.given is None else repr(self.given)
        return f"parameter {self.name}: expected {self.expected}, given {given}"
