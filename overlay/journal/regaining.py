"""After a restart, where somebody has copies of what this broker has in custody.

Whoever had them is asked first: it may have taken this broker's custody over, and what it published must not
be sent again. So stand-ins wait until that is known, and until nothing taken over is under way; who cannot
be asked for long is not waited for. A journal that is new, or has lost something, gets back what it lacks
from each neighbour that was given copies before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from grapevine.wire import WireError, decode_publications
from grapevine.wire.keeping import KEEP_FETCH, Keep, KeepOrder, KeptPublisher, KeptUpTo
from grapevine.wire.messages import Publication
from overlay.core import Core
from overlay.journal.bodies import Advert, KeeperBody, Source, encode_body
from overlay.journal.holding import Holding
from overlay.journal.journal import Journal
from overlay.journal.record import ADVERT, KEEPER
from overlay.journal.stand_in import StandIns
from overlay.links.session import Session

SERIAL_BITS = 24  # of a round, behind the incarnation


class Regaining:
    """`over(session)` when everything is known; with a session when it has given back what it had."""

    def __init__(
        self, journal: Journal, holding: Holding, stand_ins: StandIns, over: Callable[[Session | None], None]
    ) -> None:
        self.journal = journal
        self.holding = holding
        self.stand_ins = stand_ins
        self.is_new = False  # the journal: there may have been another
        self.doubt = False  # custody of a former life may have been taken over
        self.fetching: Session | None = None
        # Who has taken over what; `told` answers.
        self.inquire: Callable[[float], None] = lambda now: None
        self.went_on = False  # without having heard
        self._over = over
        self._fetched: list[Source] = []
        self._given_back: set[int] = set()  # brokers that have given back what they had, in this life
        self._asking = self._sure = False  # who had copies; that it has taken nothing over
        self._asked_since: float | None = None  # without an answer

    def start(self, core: Core, reported_loss: bool) -> None:
        """Since which life this journal has everything is written down."""
        self.core = core
        contents = self.journal.contents
        known = contents.keeper
        self.is_new = known is None
        self.doubt = bool(contents.custody.items and known is not None and known.keeper)
        if known is None or reported_loss:
            known = known or KeeperBody(0, "", 0, 0)
            body = msgspec.structs.replace(known, since=core.incarnation)
            self.journal.keep(KEEPER, encode_body(body))

    @property
    def waiting(self) -> bool:
        """What a former life had is not all known yet."""
        return self.fetching is not None or self.doubt

    # --- taken over ---------------------------------------------------------------------------------

    def ask(self, now: float) -> None:
        if not self._asking:
            self._asking = True
            self.inquire(now)
        if self._asked_since is None:
            self._asked_since = now

    def told(self, answered: set[str], taken: list[KeptUpTo], now: float) -> None:
        """Who is there, and what others have taken over."""
        self._asking = False
        if not self.doubt or self._asked_since is None:
            return
        known = self.journal.contents.keeper
        if self._drop_taken(taken, now):
            self._asked_since = now
        elif known is not None and known.name in answered:
            self._sure = True
        elif now - self._asked_since > self.core.settings.links.lost_after_s:
            name = known.name if known is not None else "nobody"
            self.core.note(now, f"{name}, who kept copies, cannot be asked: custody is published from here")
            self._sure = self.went_on = True
        if self._sure and self.fetching is None:
            self._certain(now)

    def _drop_taken(self, taken: Iterable[KeptUpTo], now: float) -> bool:
        """Of these somebody else has custody; whether any of it is under way there."""
        under_way = False
        for one in taken:
            source = one.publisher, one.incarnation
            if not self.holding.sends(source) and source in self.journal.contents.custody.held:
                self.journal.settle(source, one.sequence, now)
            under_way |= not one.done
        return under_way

    def _certain(self, now: float) -> None:
        """What is in custody is ours to publish."""
        self.doubt = False
        for source in list(self.stand_ins.working):
            self.stand_ins.go(source, now)
        self._over(None)

    # --- what comes back ----------------------------------------------------------------------------

    def lacks_of(self, round: int, session: Session) -> bool:
        """Whether this journal may lack what was given to it in that round."""
        known = self.journal.contents.keeper
        if known is None or session.id in self._given_back:
            return False
        return round >> SERIAL_BITS < known.since and (round > 0 or known.since == self.core.incarnation)

    def fetch(self, session: Session) -> None:
        if self.fetching is None:
            self.fetching = session
            self.core.tell(KeepOrder(KEEP_FETCH), session)

    def link_down(self, session: Session) -> None:
        if self.fetching is session:
            self.fetching = None  # asked again when it is back

    def returned(self, session: Session, keep: Keep, now: float) -> None:
        if session is not self.fetching:
            return
        for publisher in keep.publishers:
            self._take_advert(publisher)
        try:
            publications = decode_publications(keep.publications)
        except WireError:
            self.core.refuse("copies")
            publications = []
        lacking = [publication for publication in publications if self._lacks(publication)]
        if lacking:
            self.journal.hold(lacking)
            self._fetched += [(p.publisher, p.incarnation) for p in lacking]
        if not keep.complete:
            self.core.tell(KeepOrder(KEEP_FETCH, keep.position), session)
        else:  # what was taken in this drain is in the journal with its end
            self.core.timers.at(now, self._written)

    def _take_advert(self, publisher: KeptPublisher) -> None:
        source = publisher.publisher, publisher.incarnation
        if source not in self.journal.contents.adverts:
            self.journal.keep(ADVERT, encode_body(advert_of(publisher)))

    def _lacks(self, publication: Publication) -> bool:
        """Whoever publishes here in this life sends all again that is not settled."""
        source = publication.publisher, publication.incarnation
        if self.holding.sends(source):
            return False
        return not self.journal.contents.custody.has(source, publication.sequence)

    def _written(self, now: float) -> None:
        self.journal.when_kept(self.journal.next - 1, self._have_it_back)

    def _have_it_back(self, now: float) -> None:
        session, self.fetching = self.fetching, None
        fetched, self._fetched = dict.fromkeys(self._fetched), []
        if session is None:
            return  # its link broke
        self._given_back.add(session.id)
        if (known := self.journal.contents.keeper) is not None and not known.keeper:
            body = msgspec.structs.replace(known, keeper=session.id, name=session.name)
            self.journal.keep(KEEPER, encode_body(body))
        self._over(session)
        if self._sure or not self.doubt:
            self._certain(now)
        for source in fetched:
            if source in self.journal.contents.custody.held and not self.holding.sends(source):
                self.stand_ins.take_up(source, now)
        if fetched:
            text = f"{session.name} has given back what this disk had lost, of {len(fetched)} publishers"
            self.core.event(now, "copies.returned", text, keeper=session.name, publishers=len(fetched))


def introduction(advert: Advert) -> KeptPublisher:
    filters = tuple(advert.filters)
    return KeptPublisher(
        advert.publisher, advert.incarnation, advert.name, filters, advert.may_publish, advert.key
    )


def advert_of(publisher: KeptPublisher) -> Advert:
    return Advert(
        publisher.publisher,
        publisher.incarnation,
        publisher.name,
        list(publisher.filters),
        publisher.may_publish,
        publisher.key,
    )
