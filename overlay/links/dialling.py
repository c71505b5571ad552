"""An attempt to reach another broker: a connection is opened, HELLO goes out, and one answer ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overlay.links.session import Link
from overlay.outbox import Open

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.links.handshake import Purpose


class Dial:
    """`failed(reason, text, now)` or `greeted(session, now)` is called once. `path` is what HELLO says of
    the way to who is dialled, where the purpose needs one."""

    __slots__ = ("addresses", "failed", "greeted", "link", "number", "path", "purpose", "replaces")

    def __init__(
        self,
        number: int,
        purpose: Purpose,
        addresses: tuple[str, ...],
        greeted: Callable[[Any, float], None],
        failed: Callable[[str, str, float], None],
        replaces: int,
        path: tuple[int, ...],
    ) -> None:
        self.number = number
        self.purpose = purpose
        self.addresses = addresses
        self.greeted = greeted
        self.failed = failed
        self.replaces = replaces
        self.path = path
        self.link: Link | None = None


class Dialling:
    """The dials that nobody has answered yet."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._open: dict[int, Dial] = {}
        self._number = 0

    def dial(
        self,
        purpose: Purpose,
        addresses: tuple[str, ...],
        greeted: Callable[[Any, float], None],
        failed: Callable[[str, str, float], None],
        now: float,
        replaces: int,
        path: tuple[int, ...],
        patience: int,
    ) -> None:
        self._number += 1
        dial = self._open[self._number] = Dial(
            self._number, purpose, addresses, greeted, failed, replaces, path
        )
        self.core.out.opens.append(Open(dial.number, addresses))
        patient_s = self.core.settings.links.greet_s * patience
        self.core.timers.at(now + patient_s, lambda later: self._unanswered(dial, later))

    def of(self, link: Link) -> Dial | None:
        return self._open.get(link.dial)

    def answered(self, dial: Dial) -> None:
        del self._open[dial.number]

    def transport_ended(self, link: Link, now: float) -> None:
        """The transport gave up before anybody answered."""
        dial = self.of(link)
        if dial is not None and dial.link is link:
            self._unanswered(dial, now)

    def _unanswered(self, dial: Dial, now: float) -> None:
        self.fail(dial, "unreachable", "no answer from " + ", ".join(dial.addresses), now)

    def fail(self, dial: Dial, reason: str, text: str, now: float) -> None:
        if self._open.pop(dial.number, None) is not None:
            if dial.link is not None and dial.link.session is None:
                self.core.close(dial.link)
            dial.failed(reason, text, now)
