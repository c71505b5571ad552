"""What brokers took and what they wanted done, as text for people: names instead of ids.

Numbers that were drawn (epochs, incarnations, serials) are written #1, #2, ... as they first appear: two runs
that differ only in what was drawn read the same. Pings say nothing about what happened and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from grapevine.filters import to_text
from grapevine.filters.normal import Filter
from grapevine.wire.identity import identify
from grapevine.wire.messages import Batch, Deliver, Message, Ping, Pong, Publication, Publish
from overlay.outbox import Outbox
from tools.simulator.broker import BrokerHost
from tools.simulator.network import End, Host
from tools.simulator.watcher import Watcher

SILENT = (Ping, Pong)
PLAIN = 1 << 20  # numbers above were drawn, or are made from the clock
WITHOUT = {"settings", "window", "oldest", "newest", "credit", "home_name", "publisher_name", "broker_name"}


class Names:
    """Ids to names, drawn numbers to #1, #2, ..."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._drawn: dict[float, str] = {}

    def add(self, name: str) -> None:
        self._names[identify(name)] = name

    def text(self, value: Any) -> str:
        match value:
            case bool() | str() | None:
                return str(value)
            case int() | float():
                return self._number(value)
            case bytes():
                return f"{len(value)} bytes"
            case Filter():
                return f"'{to_text(value)}'"
            case list() | tuple() | set() | frozenset():
                return "[" + " ".join(map(self.text, value)) + "]"
            case dict():
                return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items()) + "}"
            case msgspec.Struct():
                return f"({' '.join(self.fields(value))})"
        return str(value)

    def _number(self, value: float) -> str:
        if isinstance(value, int) and value in self._names:
            return self._names[value]
        if abs(value) < PLAIN:
            return f"{value:.3g}" if isinstance(value, float) else str(value)
        return self._drawn.setdefault(value, f"#{len(self._drawn) + 1}")

    def fields(self, message: msgspec.Struct) -> Iterator[str]:
        """Without those that say nothing: empty, zero or false."""
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if name not in WITHOUT and value not in (0, "", b"", (), [], None, False):
                yield f"{name}={self.text(value)}"

    def message(self, message: Message) -> str:
        words = [type(message).__name__]
        if isinstance(message, Batch | Deliver | Publish):
            words.append(f"at={message.first} " + " ".join(map(self._publication, message.publications)))
            if not isinstance(message, Publish):
                words.append(f"received={message.received} settled={message.settled}")
        else:
            words += self.fields(message)
        return " ".join(words)

    def _publication(self, publication: Publication) -> str:
        who = self.text(publication.publisher) + ":" if publication.publisher else ""
        flags = f"/{publication.flags}" if publication.flags else ""
        plane = f"/plane {self.text(publication.plane)}" if publication.plane else ""
        return f"{who}{publication.sequence}{flags}{plane}"


class Transcript:
    """Written while it is `on`; takes the place of a broker's watch and of what acts on its outbox."""

    def __init__(self, watcher: Watcher) -> None:
        self.names = Names()
        self.lines: list[str] = []
        self.on = True
        self._watcher = watcher
        self._last = ""

    def follow(self, broker: BrokerHost) -> None:
        self.names.add(broker.name)
        broker.watch = self
        act = broker._act

        def acting(out: Outbox) -> None:
            self._outbox(broker, out)
            act(out)

        broker._act = acting  # type: ignore[method-assign]

    def take(self) -> list[str]:
        lines, self.lines, self._last = self.lines, [], ""
        return lines

    def _write(self, broker: BrokerHost, text: str) -> None:
        if self.on:
            if self._last != broker.name:
                self.lines.append(broker.name)
                self._last = broker.name
            self.lines.append(f"  {text}")

    def _outbox(self, broker: BrokerHost, out: Outbox) -> None:
        for _, addresses in out.opens:
            self._write(broker, f"dials {' '.join(addresses)}")
        for message, numbers in out.sends:
            to = " ".join(sorted(self._other(broker, number) for number in numbers))
            if not isinstance(message, SILENT):
                self._write(broker, f"-> {to}: {self.names.message(message)}")
        for number, batch in out.batches:
            self._write(broker, f"-> {self._other(broker, number)}: {self.names.message(batch)}")
        for event in out.logs:
            if event.event == "note":
                self._write(broker, f"notes {event.reason}")
        for number in out.closes:
            self._write(broker, f"closes {self._other(broker, number)}")

    @staticmethod
    def _other(broker: BrokerHost, number: int) -> str:
        end = broker.ends.get(number)
        other: Host | None = end.other.host if end is not None and end.other is not None else None
        return other.name if other is not None else "nobody"

    # --- Watch --------------------------------------------------------------------------------------

    def before(self, broker: BrokerHost, end: End, message: Message) -> bool:
        if not isinstance(message, SILENT):
            other = end.other.host.name if end.other is not None else "nobody"
            self._write(broker, f"<- {other}: {self.names.message(message)}")
        return self._watcher.before(broker, end, message)

    def sending(self, broker: BrokerHost, message: Message) -> bool:
        return self._watcher.sending(broker, message)

    def after(self, broker: BrokerHost) -> None:
        self._watcher.after(broker)

    def stopped(self, broker: BrokerHost, reason: str) -> None:
        self._write(broker, f"stops: {reason}")
        self._watcher.stopped(broker, reason)

    def left(self, broker: BrokerHost) -> None:
        self._write(broker, "has left")
        self._watcher.left(broker)
