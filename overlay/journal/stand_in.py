"""After a restart: somebody publishes what a publisher had left here, in its name and its incarnation.

It advertises what the publisher had advertised before any neighbour is met, so that nobody forgets what was
delivered already; publishes custody in order, marked as sent before; and goes when all of it is settled. It
is not the publisher: whoever attaches under that name, here or elsewhere, is not kept away by it, and may
send the same again, which is recognised.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    CUT_ROTTEN,
    PROTOCOL,
    PROTOCOL_OLDEST,
    RESENT,
    Attach,
    Publication,
    Publish,
)
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry
from overlay.gather import Gather
from overlay.journal.bodies import Advert, Source
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.links.readiness import Readiness

STEP = 2_048  # publications of one piece of work
EPOCH = 1


class StandIn:
    """Publishes `pieces`; `ended(self, now)` when they are settled."""

    def __init__(
        self,
        core: Core,
        journal: Journal,
        registry: Registry,
        advert: Advert,
        pieces: list[Held],
        ended: Callable[[StandIn, float], None],
        held: bool = False,
    ) -> None:
        self.core = core
        self.journal = journal
        self.registry = registry
        self.advert = advert
        self.replayed = 0
        self.held = held  # until it is known that nobody else publishes this
        self._pieces = pieces[::-1]
        self._rows: list[Publication] = []
        self._ended = ended
        self._waiting = len(advert.filters)  # confirmations
        self._working = self._over = False
        self.client = self._admit(core.now)

    def _admit(self, now: float) -> Client:
        """Nobody is at the other end, and nobody's name is taken."""
        advert, core = self.advert, self.core
        attach = Attach(
            PROTOCOL_OLDEST, PROTOCOL, advert.name, identify(advert.name), advert.incarnation, EPOCH, 0, 0
        )
        client = Client(core, attach, lambda client: self.go_on(core.now), now)
        client.ended = True  # gone as whoever it was
        client.key = advert.key
        client.incoming.window = min(client.incoming.window, core.settings.links.window // 4 or 1)
        client.incoming.list_all()
        client.grant(advert.may_publish, client.may_ask)
        core.numbered[client.number] = client
        return client

    def advertise(self, now: float) -> None:
        advert, client = self.advert, self.client
        for number, filter in enumerate(advert.filters):
            gather = Gather(lambda gather, later: self._confirm(later))
            key = self.registry.advertise(client, filter, gather, now, stand_in=True)
            client.advertisements[number] = (key, filter)
            client.readvertised()
            gather.start(now)

    def _confirm(self, now: float) -> None:
        self._waiting -= 1
        self.go_on(now)

    def go_on(self, now: float) -> None:
        """Something has changed that may have been waited for."""
        incoming = self.client.incoming
        if self._over or self._working or self._waiting > 0 or not self.core.ready or self.held:
            return
        if self._rows or self._pieces:
            if incoming.credit > incoming.received:
                self._working = True
                self.core.defer(self._step)
        elif incoming.settled == incoming.received:
            self._over = True
            self._ended(self, now)

    def _step(self, now: float) -> bool:
        incoming = self.client.incoming
        room = min(incoming.credit - incoming.received, STEP)
        if room and self._fill(now):
            run, self._rows = self._rows[:room], self._rows[room:]
            self._publish(run, now)
            return True
        self._working = False
        self.go_on(now)
        return False

    def _fill(self, now: float) -> bool:
        while not self._rows and self._pieces:
            held = self._pieces.pop()
            for read in self.journal.reader.read(held.position, held.items):
                if read.publications is None:
                    last = read.position + read.items - 1
                    self.journal.lose(read.position, last, CUT_ROTTEN, now)
                else:
                    self._rows += read.publications
        return bool(self._rows)

    def begin_with(self, pieces: list[Held]) -> None:
        """These are in custody now; it has sent nothing yet."""
        self._pieces = pieces[::-1]

    def skip(self, held: Held) -> bool:
        """It is given up; False if it was read already."""
        if held not in self._pieces:
            return False
        self._pieces.remove(held)
        return True

    def _publish(self, run: list[Publication], now: float) -> None:
        client = self.client
        first = client.incoming.received + 1
        accepted_at = [publication.accepted_at for publication in run]
        for publication in run:
            publication.flags |= RESENT
        client.incoming.take(first, len(run))
        self.core.accept.call(client, Publish(client.epoch, first, run), 0, now)
        for publication, at in zip(run, accepted_at):
            publication.accepted_at = at  # it was accepted then
        self.replayed += len(run)


class StandIns(Quiet):
    name = "stand-ins"

    def __init__(self, journal: Journal, registry: Registry, readiness: Readiness) -> None:
        self.journal = journal
        self.registry = registry
        self.working: dict[Source, StandIn] = {}
        self.replayed = 0
        self.in_doubt: Callable[[], bool] = lambda: False  # whether somebody must be asked first
        readiness.on_ready.append(self._ready)

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        contents = self.journal.contents
        self.core.now = now
        for source in contents.custody:
            self._begin(source, self.in_doubt(), now)

    def _begin(self, source: Source, held: bool, now: float) -> None:
        contents = self.journal.contents
        advert = contents.adverts.get(source)
        if advert is None:
            self._give_up(source, now)
            return
        pieces = list(contents.custody.held[source])
        stand_in = StandIn(self.core, self.journal, self.registry, advert, pieces, self._ended, held)
        self.working[source] = stand_in
        stand_in.advertise(now)

    def take_up(self, source: Source, now: float) -> None:
        """There is more of it in custody than its publisher has brought in this life."""
        stand_in = self.working.get(source)
        if stand_in is None:
            self._begin(source, False, now)
        elif stand_in.held:
            stand_in.begin_with(list(self.journal.contents.custody.held.get(source, ())))

    def go(self, source: Source, now: float) -> None:
        """What is in custody of it now is for this broker to publish, and nobody else does."""
        stand_in = self.working.get(source)
        if stand_in is not None and stand_in.held:
            stand_in.begin_with(list(self.journal.contents.custody.held.get(source, ())))
            stand_in.held = False
            stand_in.go_on(now)

    def _give_up(self, source: Source, now: float) -> None:
        """Its advertisement was lost with a part of the log: nobody knows what it may publish."""
        pieces = self.journal.contents.custody.forget(source)
        self.journal.contents.forget_adverts()
        items = sum(held.items for held in pieces)
        self.journal.holes += items
        self.core.note(now, f"custody lost: {items} publications of publisher {source[0]:016x}")

    def skip(self, source: Source, held: Held) -> bool:
        stand_in = self.working.get(source)
        return stand_in is not None and stand_in.skip(held)

    def _ready(self, now: float) -> None:
        for stand_in in list(self.working.values()):
            stand_in.go_on(now)

    def _ended(self, stand_in: StandIn, now: float) -> None:
        advert = stand_in.advert
        self.working.pop((advert.publisher, advert.incarnation), None)
        self.replayed += stand_in.replayed
        self.core.lose(stand_in.client, now)

    def status(self) -> Status:
        return {"working": len(self.working), "replayed": self.replayed}
