"""`subscribe(.., group=name)` and `subscribe(.., last=True)` for the two shells: each a session of its own.

The group lives at one broker, which need not be the client's: the member's session attaches there, follows it
when it is sent on, and leaves the client's other subscriptions where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from grapevine.client import durable as durables
from grapevine.client import options
from grapevine.client.durable import AsyncDurableSubscription, DurableSubscription
from grapevine.client.engine import Engine
from grapevine.client.options import Keys, as_filter
from grapevine.client.session.durable import Wanted
from grapevine.errors import Invalid
from grapevine.filters import Filter

IN_FLIGHT = 64  # messages under way to one member: what it holds, others wait for
LAST = "last values"
_numbers = count(1)


@dataclass(frozen=True)
class Membership:
    """What a member asks for, and the engine of its session."""

    wanted: Wanted
    engine: Engine


def membership(engine: Engine, group: str, filter: str | Filter | None, said: dict[str, Any]) -> Membership:
    if said.get("ack") == "cumulative":
        raise Invalid('ack="cumulative" in a group: what lies between is another member\'s')
    form = None if filter is None else as_filter(filter)
    wanted = durables.wanted(group, form, **{"in_flight": IN_FLIGHT, **said})._replace(group=True)
    name = f"{engine.session.name}/{group}/{next(_numbers)}"
    keys: Keys = False if engine.keys is None else engine.keys
    windows = options.PUBLISH_WINDOW, options.RECEIVE_WINDOW
    own = options.make_engine(engine.candidates, name, "drop_oldest", *windows, keys, None)
    return Membership(wanted, own)


def newest(engine: Engine, filter: str | Filter | None) -> Membership:
    """For `last=True`: a session of its own, too."""
    if filter is None:
        raise Invalid("last=True needs a filter")
    member = membership(engine, LAST, filter, {})
    return Membership(member.wanted._replace(group=False, last=True, ack="explicit"), member.engine)


class GroupSubscription(DurableSubscription):
    """For `grapevine.connect`. `close` leaves the group, `unsubscribe` ends it too if nobody else is in
    it."""

    @property
    def late(self) -> int:
        """Acknowledgements of this member that did not count: the message was another's by then."""
        return self._reader.late

    def close(self) -> None:
        super().close()
        self._client.close()

    def unsubscribe(self, timeout: float | None = 10.0) -> None:
        super().unsubscribe(timeout)
        self._client.close()


class AsyncGroupSubscription(AsyncDurableSubscription):
    """For `grapevine.aio.connect`; the same names."""

    @property
    def late(self) -> int:
        return self._reader.late

    async def close(self) -> None:
        await super().close()
        await self._client.close()

    async def unsubscribe(self, timeout: float | None = 10.0) -> None:
        await super().unsubscribe(timeout)
        await self._client.close()
