"""What a driver hands to a broker that starts, whatever the overlay."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from matching.interface import Matcher
from overlay.channels.store import Disks
from overlay.feeding.spool import Spool
from overlay.journal.journal import Opened
from overlay.onehop.effort import Effort
from overlay.outbox import Kept
from overlay.settings import CoreSettings


class Start(NamedTuple):
    name: str
    incarnation: int
    settings: CoreSettings
    random: Random
    addresses: tuple[str, ...]
    matcher: Callable[[], Matcher]
    kept: Kept  # rows by table and key: each behaviour restores its own
    roles: frozenset[str] = frozenset(("broker",))
    spool: Spool | None = None  # where writers' rows wait until they are committed
    opened: Opened | None = None  # the journal; without one nothing is ever persisted
    disks: Disks | None = None  # what a back end keeps
    backend: str = ""  # where the back end is, for brokers that are none
    location: tuple[float, ...] = ()  # latitude and longitude; or unknown
    coordinator: str = ""  # where the coordinator is asked first, before the whole overlay is
    effort: Effort = Effort()  # what a matcher's questions cost on this machine
