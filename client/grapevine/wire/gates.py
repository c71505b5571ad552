"""Who may say a message, and to whom: every message class has its own gate, and there is no default.

`since`: the first protocol that knows it; a session is sent nothing newer than its peer's (overlay/core.py).
`carriers`: the sessions on which a broker takes it. `roles`: the sender's key needs one of them.
"""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple


class Carrier(IntFlag):
    """Bits of session kinds, in the order of `overlay.links.session.Kind`."""

    PEER = 1
    CLIENT = 2
    ADMIN = 4
    BESIDE = 8
    SOFT = 16
    GREETING = 32  # any link, before anybody knows who is there


REMOTE = Carrier.PEER | Carrier.SOFT  # another broker, whatever the link to it is for
STREAMS = REMOTE | Carrier.CLIENT  # whoever exchanges publications
ANY = STREAMS | Carrier.ADMIN | Carrier.BESIDE

BROKER = frozenset(("broker",))
PUBLISHER = frozenset(("publisher",))
SUBSCRIBER = frozenset(("subscriber",))
ADMIN = frozenset(("admin",))
ASKING = frozenset(("admin", "observer"))  # which verbs an observer may say: daemon/policy.py
CLIENT = PUBLISHER | SUBSCRIBER
STREAMING = CLIENT | BROKER
ANYBODY = STREAMING | ASKING


class Gate(NamedTuple):
    since: int
    carriers: Carrier
    roles: frozenset[str]
