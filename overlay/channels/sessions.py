"""The link between a broker and the back end, beside the overlay: dialled by the broker, never resumed
(links/beside.py). What was under way when it broke is asked again by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.messages import Message
from overlay.core import Core
from overlay.links.beside import BesideSession

Handlers = dict[type[Any], Callable[[Any, Any, float], None]]


class BackendSession(BesideSession):
    __slots__ = ()


class Inside(BackendSession):
    """A back end's own subscribers: the two behaviours hand each other messages, in their order, and never in
    the middle of what the other does."""

    __slots__ = ("_back", "_front")

    def __init__(self, core: Core) -> None:
        super().__init__(core, core.id, core.name)
        self._front: Handlers = {}
        self._back: Handlers = {}

    def join(self, front: Handlers, back: Handlers) -> None:
        self._front, self._back = front, back

    def to_front(self, message: Message) -> None:
        handler = self._front[type(message)]
        self.core.timers.at(self.core.now, lambda now: handler(self, message, now))

    def to_back(self, message: Message) -> None:
        handler = self._back[type(message)]
        self.core.timers.at(self.core.now, lambda now: handler(self, message, now))
