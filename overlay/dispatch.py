"""Who handles which message: a list indexed by kind, filled once when a broker is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from grapevine.wire.messages import Command, Message
from overlay.links.session import Kind, Link

M = TypeVar("M", bound=Message)
Handler = Callable[[Any, Any, float], None]


class Dispatch:
    __slots__ = ("_handlers", "_link_kinds", "commands", "greetings")

    def __init__(self) -> None:
        self.greetings: dict[int, Handler] = {}
        self.commands: dict[str, Callable[[Link, Command, float], None]] = {}
        self._handlers: list[Handler | None] = [None] * 256
        self._link_kinds: list[tuple[Kind, Kind | None] | None] = [None] * 256

    def on(
        self,
        message: type[M],
        handler: Callable[[Any, M, float], None],
        kind: Kind | None = Kind.PEER,
        also: Kind | None = None,
    ) -> None:
        """`kind` of session that may carry the message, and `also` another; None: any."""
        assert self._handlers[message.kind] is None, message
        self._handlers[message.kind] = handler
        self._link_kinds[message.kind] = None if kind is None else (kind, also)

    def on_greeting(self, message: type[M], handler: Callable[[Link, M, float], None]) -> None:
        """Messages that a link may carry before anybody knows who is there."""
        self.greetings[message.kind] = handler

    def on_command(self, verb: str, handler: Callable[[Link, Command, float], None]) -> None:
        """An administrator's verb; "" answers for those that nobody knows."""
        self.commands[verb] = handler

    def command(self, verb: str) -> Callable[[Link, Command, float], None]:
        return self.commands.get(verb) or self.commands[""]

    def handler(self, kind: int, link_kind: Kind) -> Handler | None:
        kinds = self._link_kinds[kind]
        return self._handlers[kind] if kinds is None or link_kind in kinds else None
