"""One idea of an overlay: it owns its tables and message kinds and is told of sessions.

Sessions come up and go down many times; they are lost once. `link_losing` comes just before that, while what
is not settled can still be taken back. `status` is what pubctl prints, `validate` asserts what must hold
between two inputs. `restore` comes once, before `start`, with the rows that it had kept in its table before a
restart. `reconfigured` comes when `core.settings` are other ones while it
runs; who reads them at each use has nothing to do then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.links.session import Session
    from overlay.settings import CoreSettings

Status = dict[str, Any]


class Behaviour(Protocol):
    name: str
    keeps: str

    @property
    def after(self) -> tuple[str, ...]:
        """Classes of behaviours that must have been added before this one,"""

    @property
    def before(self) -> tuple[str, ...]:
        """and that must come later."""

    def attach(self, core: Core) -> None: ...
    def restore(self, rows: Mapping[str, bytes]) -> None: ...
    def start(self, now: float) -> None: ...
    def link_up(self, session: Session, now: float) -> None: ...
    def link_down(self, session: Session, now: float) -> None: ...
    def link_losing(self, session: Session, now: float) -> None: ...
    def link_lost(self, session: Session, now: float) -> None: ...
    def reconfigured(self, before: CoreSettings, now: float) -> None: ...
    def status(self) -> Status: ...
    def validate(self) -> None: ...


class Quiet:
    """A behaviour that has nothing to say; the others override what concerns them."""

    name = ""
    keeps = ""  # the table of its durable rows (`Core.keep`); "": it has none
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def attach(self, core: Core) -> None: ...
    def restore(self, rows: Mapping[str, bytes]) -> None: ...
    def start(self, now: float) -> None: ...
    def link_up(self, session: Session, now: float) -> None: ...
    def link_down(self, session: Session, now: float) -> None: ...
    def link_losing(self, session: Session, now: float) -> None: ...
    def link_lost(self, session: Session, now: float) -> None: ...
    def reconfigured(self, before: CoreSettings, now: float) -> None: ...
    def status(self) -> Status:
        return {}

    def validate(self) -> None: ...
