"""What a client asks of its first broker: subscribe, advertise, and their ends."""

from __future__ import annotations

from grapevine.filters.printing import to_text
from grapevine.wire.messages import (
    ClientAdvertise,
    ClientSubscribe,
    ClientUnadvertise,
    ClientUnsubscribe,
    Done,
)
from matching.relations import covers
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry
from overlay.gather import Gather


class Requests(Quiet):
    def __init__(self, attachments: Attachments, registry: Registry) -> None:
        self.registry = registry
        attachments.drained.add(self, self._unadvertise_settled)
        attachments.admitted = self._grant
        self.own = attachments.own

    def attach(self, core: Core) -> None:
        self.core = core
        core.review = self._review
        core.on(ClientSubscribe, self.on_subscribe)
        core.on(ClientUnsubscribe, self.on_unsubscribe)
        core.on(ClientAdvertise, self.on_advertise)
        core.on(ClientUnadvertise, self.on_unadvertise)

    def _review(self, now: float) -> None:
        """Grants have changed: whoever is here has what its key has now."""
        for client in list(self.core.clients.values()):
            if client.link is not None:
                self._grant(client, now)

    def _grant(self, client: Client, now: float) -> None:
        """Take what the client's key may do; subscriptions outside it end."""
        if self.core.granted is None or client.link is None:
            return
        client.grant(*self.core.granted(client.link.number))
        for number, key in list(client.subscriptions.items()):
            if not covers(client.may_ask, self.registry.filter_of(key)):
                self.core.refuse("asks for more than its key may")
                del client.subscriptions[number]
                self.registry.unsubscribe(client, key, now)

    def _confirmation(self, client: Client, request: int) -> Gather:
        link = client.link

        def confirmed(gather: Gather, now: float) -> None:
            if client.link is link and link is not None:
                self.core.send(Done(request, "confirmed"), link)

        return Gather(confirmed, patient=True)

    def on_subscribe(self, client: Client, message: ClientSubscribe, now: float) -> None:
        """A request repeated after a resume waits for the same confirmation again."""
        known = client.subscriptions.get(message.number)
        if known is not None and self.registry.filter_of(known) != message.filter:
            self._taken(client, message)
            return
        if known is None and len(client.subscriptions) >= self.core.settings.clients.subscriptions:
            self.core.tell(Done(message.request, "limit", "too many subscriptions of one client"), client)
            return
        if not covers(client.may_ask, message.filter):
            self.core.refuse("asks for more than its key may")
            text = f"its key may ask for {to_text(client.may_ask):.500} only"
            self.core.tell(Done(message.request, "not-allowed", text), client)
            return
        if text := self.registry.refusal(message.filter):
            self.core.tell(Done(message.request, "filter", text), client)
            return
        self.core.tell(Done(message.request, "local"), client)
        gather = self._confirmation(client, message.request)
        if known is not None:
            self.registry.await_subscription(known, gather)
        else:
            key = self.registry.subscribe(client, message.filter, message.number, gather, now)
            client.subscriptions[message.number] = key
        gather.start(now)

    def _taken(self, client: Client, message: ClientSubscribe | ClientAdvertise) -> None:
        text = f"number {message.number} stands for another filter of this client"
        self.core.tell(Done(message.request, "filter", text), client)

    def on_unsubscribe(self, client: Client, message: ClientUnsubscribe, now: float) -> None:
        if (key := client.subscriptions.pop(message.number, None)) is not None:
            self.registry.unsubscribe(client, key, now)
        self.core.tell(Done(message.request, "confirmed"), client)

    def on_advertise(self, client: Client, message: ClientAdvertise, now: float) -> None:
        known = client.advertisements.get(message.number)
        if known is not None and known[1] != message.filter:
            self._taken(client, message)
            return
        if known is None and (reason := self._barred(client)) is not None:
            self.core.tell(Done(message.request, *reason), client)
            return
        self.core.tell(Done(message.request, "local"), client)
        gather = self._confirmation(client, message.request)
        if known is not None:
            self.registry.await_advertisement(known[0], gather)
        else:
            self.own(client, now)
            key = self.registry.advertise(client, message.filter, gather, now)
            client.advertisements[message.number] = (key, message.filter)
            client.readvertised()
        gather.start(now)

    def _barred(self, client: Client) -> tuple[str, str] | None:
        if (
            len(client.advertisements) + len(client.unadvertising)
            >= self.core.settings.clients.advertisements
        ):
            return "limit", "too many advertisements of one client"
        if home := self.registry.name_taken(client.id, client.incarnation):
            where = f"a publisher named {client.name} is at {home}"
            return "not-allowed", where + ": close it or wait until it is given up"
        return None

    def on_unadvertise(self, client: Client, message: ClientUnadvertise, now: float) -> None:
        if (known := client.advertisements.pop(message.number, None)) is not None:
            client.readvertised()
            client.unadvertising.append((client.incoming.received, known[0]))
            client.touch()
        self.core.tell(Done(message.request, "confirmed"), client)

    def _unadvertise_settled(self, client: Client) -> None:
        """DECISIONS 8: the tree hears of it only when everything accepted under it is settled or cut."""
        while client.unadvertising and client.unadvertising[0][0] <= client.incoming.settled:
            _, key = client.unadvertising.pop(0)
            self.registry.unadvertise(client, key, self.core.now)
