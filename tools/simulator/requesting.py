"""Requests and replies in the simulator, with the library's own inbox. They are publications, so what is owed
to whom is judged by the oracle; what is more is judged here:

* a request ends once: by a reply, by word that nobody is there, or with its time; or its process has ended;
* a reply answers this very request, comes to nobody else, and is taken once;
* what a responder knows to be settled, and was not told as cut, is with a requester that waits for it;
* no responders is never told if a confirmed subscription wanted the request and could be reached when it was
  accepted (`Oracle.unanswerable`);
* in peace a request is answered if anybody has subscribed to it, and if nobody has that is told.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from random import Random

from msgspec.structs import replace

from grapevine.client.session import AdvertisementState, Session
from grapevine.client.session import Message as Delivery
from grapevine.client.session.inbox import INBOX, Inbox
from grapevine.errors import NoResponders, NotAllowed
from grapevine.filters import parse
from grapevine.filters.normal import Filter
from grapevine.wire.messages import CUT_NOT_ALLOWED
from tools.simulator.apps import App
from tools.simulator.clients import ClientHost
from tools.simulator.oracle import Oracle, number_of
from tools.simulator.result import Result
from tools.simulator.scenario import Requests, draw_float
from tools.simulator.simulation import Simulation
from tools.simulator.workloads import Attributes

REPLY, ALONE, TIMEOUT, ENDED = "reply", "no responders", "timeout", "ended"
LATE, TWICE = 0.05, 0.1  # shares of the requests that are answered too late, and twice
WORK_S = 0.3
SAYS = 0.5  # share of the responders that advertise something of their own


class Services:
    """What is asked: some of the services nobody offers."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests

    def advertisement(self, random: Random) -> Filter:
        return parse("exists service")

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        offered = self.requests.services
        return {"service": f"s{random.randrange(offered + self.requests.unoffered)}", "x": random.random()}

    def subscription(self, random: Random) -> Filter:
        return parse(f"service = 's{random.randrange(self.requests.services)}'")


class Asked:
    """A request: its number among all publications, and how it ended."""

    __slots__ = ("host", "life", "number", "outcome", "sequence")

    def __init__(self, host: AskingHost, number: int, sequence: int) -> None:
        self.host = host
        self.life = host.life
        self.number = number
        self.sequence = sequence
        self.outcome = ""


class RequestWatch:
    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.calm = False  # the faults are over: nobody is late
        self.asked: dict[int, Asked] = {}
        self._taken: dict[int, int] = {}  # reply -> request
        self._replies: dict[int, list[int]] = defaultdict(list)
        self._indexed = 0

    def began(self, asked: Asked) -> None:
        self.asked[asked.number] = asked

    def end(self, asked: Asked, outcome: str) -> None:
        if asked.outcome:
            self.oracle.violation(f"request {asked.number} ended by {asked.outcome} and by {outcome}")
        asked.outcome = outcome

    def came(self, host: AskingHost, reply: Delivery) -> None:
        """Into an inbox, waited for or not."""
        asked = self.asked.get(int(reply.attributes["of"]))
        if asked is None or asked.host is not host or asked.life != host.life:
            self.oracle.violation(f"{host.name} has a reply to a request that it did not send: {reply}")

    def answered(self, asked: Asked, reply: Delivery) -> None:
        number = number_of(reply.publication)
        if reply.attributes["of"] != asked.number:
            self.oracle.violation(f"request {asked.number} has a reply to {reply.attributes['of']}")
        if number in self._taken:
            self.oracle.violation(f"reply {number} is taken for {self._taken[number]} and {asked.number}")
        self._taken[number] = asked.number
        self.end(asked, REPLY)

    def timed_out(self, asked: Asked) -> None:
        self.end(asked, TIMEOUT)
        self._index()
        for number in self._replies[asked.number]:
            if self.oracle.settled_for(number, (asked.host.index, asked.life)):
                self.oracle.violation(f"request {asked.number} timed out, and its reply {number} is settled")

    def _index(self) -> None:
        publications = self.oracle.publications
        for number in range(self._indexed, len(publications)):
            if INBOX in publications[number].attributes:
                self._replies[int(publications[number].attributes["of"])].append(number)
        self._indexed = len(publications)

    # --- at rest --------------------------------------------------------------------------------------

    def judge(self) -> None:
        for asked in self.asked.values():
            if not asked.outcome:
                self.oracle.violation(f"request {asked.number} of {asked.host.name} has not ended")

    def judge_fresh(self, first: int) -> None:
        """These were sent in peace."""
        for number in range(first, len(self.oracle.publications)):
            if (asked := self.asked.get(number)) is not None:
                wanted = REPLY if self.oracle.publications[number].owed else ALONE
                if asked.outcome != wanted:
                    self.oracle.violation(f"request {number} in peace: {asked.outcome} and not {wanted}")

    def outcomes(self) -> dict[str, float]:
        return dict(sorted(Counter(asked.outcome for asked in self.asked.values()).items()))


class InboxHost(ClientHost):
    """A client with the library's inbox."""

    replies: Inbox | None = None
    watch: RequestWatch

    def start(self, incarnation: int | None = None) -> None:
        self.replies = None
        self._told: set[int] = set()  # advertisements that the record knows
        super().start(incarnation)
        assert self.session is not None
        self.replies = Inbox(self.session)

    def advertise(self, filter: Filter) -> AdvertisementState:
        state = super().advertise(filter)
        self._told.add(state.number)
        return state

    def _look_at_confirmations(self, session: Session) -> None:
        self._tell_advertised(session)
        super()._look_at_confirmations(session)

    def _tell_advertised(self, session: Session) -> None:
        """The library makes advertisements of its own: of replies, and of whatever is published without."""
        for number, state in session.advertised.by_number.items():
            if number not in self._told:
                self._told.add(number)
                self.record.announced(self, state)


class AskingHost(InboxHost):
    """What it publishes are requests; all that it subscribes to are its replies."""

    timeout_s = 3.0
    ready = False  # its inbox was confirmed once: the library asks nothing before

    def start(self, incarnation: int | None = None) -> None:
        self.ready = False
        self.open: dict[int, Asked] = {}  # by the inbox's number
        super().start(incarnation)

    def _gone(self) -> None:
        for asked in self.open.values():
            self.watch.end(asked, ENDED)
        self.open = {}
        super()._gone()

    def _publish_waiting(self, session: Session) -> None:
        inbox = self.replies
        while inbox is not None and self.ready and self.waiting and session.can_publish:
            attributes, _ = self.waiting.popleft()
            sequence = session.next_sequence
            payload = self.record.published(self, sequence, inbox.addressed(attributes))
            try:
                number, sequence = inbox.ask(attributes, payload)
            except NotAllowed:
                self.record.cut(self, sequence, sequence, CUT_NOT_ALLOWED)
                continue
            asked = self.open[number] = Asked(self, number_of(payload), sequence)
            self.watch.began(asked)
            self.world.after(self.timeout_s, self._over, (self.life, number))

    def _over(self, request: tuple[int, int]) -> None:
        life, number = request
        if life == self.life and (asked := self.open.pop(number, None)) is not None:
            assert self.replies is not None
            del self.replies.waiting[number]
            self.watch.timed_out(asked)

    def _deliver(self, deliveries: list[Delivery]) -> None:
        super()._deliver(deliveries)
        assert self.replies is not None
        for reply in deliveries:
            self.watch.came(self, reply)
        self.replies.sort(deque(deliveries))

    def pump(self) -> None:
        session, inbox = self.session, self.replies
        if session is not None and inbox is not None and self.world.now >= self.paused_until:
            self.ready = self.ready or any(s.confirmed for s in session.incoming.subscriptions.values())
            for number, asked in list(self.open.items()):
                self._look(inbox, number, asked)
        super().pump()

    def _look(self, inbox: Inbox, number: int, asked: Asked) -> None:
        try:
            if not inbox.answered(number, asked.sequence):
                return
            reply = inbox.waiting[number]
            assert reply is not None
            self.watch.answered(asked, reply)
        except NoResponders:
            self.watch.end(asked, ALONE)
        del self.open[number], inbox.waiting[number]

    @property
    def idle(self) -> bool:
        return super().idle and not self.open


class AnsweringHost(InboxHost):
    """It works for a while on each request and replies; sometimes twice, or too late."""

    def _deliver(self, deliveries: list[Delivery]) -> None:
        super()._deliver(deliveries)
        for request in deliveries:
            chance = 1.0 if self.watch.calm else self.random.random()
            seconds = self.random.uniform(0.0, WORK_S) + (AskingHost.timeout_s if chance < LATE else 0.0)
            for _ in range(2 if LATE <= chance < LATE + TWICE else 1):
                self.world.after(seconds, self._answer, (self.life, request))

    def _answer(self, work: tuple[int, Delivery]) -> None:
        life, request = work
        if life != self.life or self.replies is None or self.session is None:
            return
        reply = self.replies.reply(request, {"of": number_of(request.publication)})
        self._tell_advertised(self.session)
        self.publish(reply)


class Asker(App):
    def _subscribe(self) -> None:
        assert isinstance(self.host, AskingHost) and self.host.replies is not None
        self.subscriptions.append(self.host.subscribe(self.host.replies.filter))


class Answerer(App):
    """Some publish something else, and say so: then what they advertise is all that they may publish."""

    def start(self) -> None:
        super().start()
        if self.random.random() < SAYS:
            self._say()

    def _say(self) -> None:
        self.advertisements = [self.host.advertise(parse("exists status"))]

    @property
    def idle(self) -> bool:
        """Whether it may publish: while a former process of its name counts as alive elsewhere it may not."""
        if self.host.session is None:
            return False
        if not self.advertisements or self.advertisements[0].request.error is not None:
            self._say()
            return False
        return super().idle


class RequestSimulation(Simulation):
    def _make_app(self, number: int, publishes: bool, random: Random) -> App:
        requests, load = self.scenario.requests, self.scenario.load
        assert requests is not None
        host = self.make_host(AskingHost if publishes else AnsweringHost, number, random)
        assert isinstance(host, InboxHost)
        host.watch = self.requests
        if isinstance(host, AskingHost):
            host.timeout_s = draw_float(requests.timeout_s, random)
        return (Asker if publishes else Answerer)(
            host,
            Services(requests),
            self.world.stream(f"app c{number}"),
            load,
            publishes=publishes,
            subscriptions=1,
            every_s=draw_float(load.every_s, random),
        )

    def _make_apps(self, random: Random) -> list[App]:
        self.requests = RequestWatch(self.oracle)
        return super()._make_apps(random)

    def result(self, seconds: float) -> Result:
        """With how requests ended."""
        return replace(super().result(seconds), overlay=self.requests.outcomes())

    def settle(self) -> bool:
        self.requests.calm = True
        return super().settle()

    def fresh(self) -> None:
        self.forget()  # until then a responder that has crashed counts as one
        first = len(self.oracle.publications)
        super().fresh()
        self.requests.judge_fresh(first)
        self.requests.judge()
