"""Who handles which message: a list indexed by kind, filled once when a broker is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from grapevine.wire.gates import Carrier
from grapevine.wire.messages import Command, Message
from overlay.links.session import Kind, Link

M = TypeVar("M", bound=Message)
Handler = Callable[[Any, Any, float], None]


class Dispatch:
    __slots__ = ("_handlers", "commands", "greetings")

    def __init__(self) -> None:
        self.greetings: dict[int, Handler] = {}
        self.commands: dict[str, Callable[[Link, Command, float], None]] = {}
        self._handlers: list[Handler | None] = [None] * 256

    def on(self, message: type[M], handler: Callable[[Any, M, float], None]) -> None:
        """On the sessions that the message's gate names."""
        assert self._handlers[message.kind] is None, message
        self._handlers[message.kind] = handler

    def on_greeting(self, message: type[M], handler: Callable[[Link, M, float], None]) -> None:
        """Messages that a link may carry before anybody knows who is there."""
        assert message.gate.carriers & Carrier.GREETING, message
        self.greetings[message.kind] = handler

    def on_command(self, verb: str, handler: Callable[[Link, Command, float], None]) -> None:
        """An administrator's verb; "" answers for those that nobody knows."""
        self.commands[verb] = handler

    def command(self, verb: str) -> Callable[[Link, Command, float], None]:
        return self.commands.get(verb) or self.commands[""]

    def handler(self, message: Message, carrier: Kind) -> Handler | None:
        return self._handlers[message.kind] if message.gate.carriers >> carrier & 1 else None
