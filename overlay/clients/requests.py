"""What a client asks of its first broker: subscribe, advertise, and their ends."""

from __future__ import annotations

from grapevine.filters.printing import to_text
from grapevine.wire.messages import (
    Advertisement,
    ClientAdvertise,
    ClientSubscribe,
    ClientUnadvertise,
    ClientUnsubscribe,
    Done,
    Subscription,
)
from matching.relations import covers
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.clients.client import Client
from overlay.core import Core
from overlay.gather import Gather
from overlay.links.session import Kind
from overlay.tree.advertisements import Advertisements
from overlay.tree.subscriptions import Subscriptions


class Requests(Quiet):
    def __init__(
        self, attachments: Attachments, advertisements: Advertisements, subscriptions: Subscriptions
    ) -> None:
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        attachments.drained = self._unadvertise_settled
        attachments.admitted = self._grant

    def attach(self, core: Core) -> None:
        self.core = core
        core.review = self._review
        core.on(ClientSubscribe, self.on_subscribe, Kind.CLIENT)
        core.on(ClientUnsubscribe, self.on_unsubscribe, Kind.CLIENT)
        core.on(ClientAdvertise, self.on_advertise, Kind.CLIENT)
        core.on(ClientUnadvertise, self.on_unadvertise, Kind.CLIENT)

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
        table = self.subscriptions.table.by_key
        for number, key in list(client.subscriptions.items()):
            if not covers(client.may_ask, table[key].item.filter):
                self.core.refuse("asks for more than its key may")
                del client.subscriptions[number]
                self.subscriptions.unsubscribe(client, key, now)

    def _confirmation(self, client: Client, request: int) -> Gather:
        link = client.link

        def confirmed(gather: Gather, now: float) -> None:
            if client.link is link and link is not None:
                self.core.send(Done(request, "confirmed"), link)

        return Gather(confirmed)

    def on_subscribe(self, client: Client, message: ClientSubscribe, now: float) -> None:
        """A request repeated after a resume waits for the same confirmation again."""
        known = client.subscriptions.get(message.number)
        if known is not None and self.subscriptions.table.by_key[known].item.filter != message.filter:
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
        self.core.tell(Done(message.request, "local"), client)
        gather = self._confirmation(client, message.request)
        if known is not None:
            self.subscriptions.await_confirmation(known, gather)
        else:
            here = self.core.id
            item = Subscription(here, self.core.serial(), here, (here,), message.filter)
            key = self.subscriptions.subscribe(client, item, message.number, gather, now)
            client.subscriptions[message.number] = key
        gather.start(now)

    def _taken(self, client: Client, message: ClientSubscribe | ClientAdvertise) -> None:
        text = f"number {message.number} stands for another filter of this client"
        self.core.tell(Done(message.request, "filter", text), client)

    def on_unsubscribe(self, client: Client, message: ClientUnsubscribe, now: float) -> None:
        if (key := client.subscriptions.pop(message.number, None)) is not None:
            self.subscriptions.unsubscribe(client, key, now)
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
            self.advertisements.await_confirmation(known[0], gather)
        else:
            item = self._advertisement(client, message)
            key = self.advertisements.advertise(client, item, gather, now)
            client.advertisements[message.number] = (key, message.filter)
            client.readvertised()
        gather.start(now)

    def _advertisement(self, client: Client, message: ClientAdvertise) -> Advertisement:
        core = self.core
        return Advertisement(
            core.id,
            core.serial(),
            core.id,
            core.name,
            client.id,
            client.incarnation,
            client.name,
            message.filter,
        )

    def _barred(self, client: Client) -> tuple[str, str] | None:
        if (
            len(client.advertisements) + len(client.unadvertising)
            >= self.core.settings.clients.advertisements
        ):
            return "limit", "too many advertisements of one client"
        for other in self.advertisements.of_publisher(client.id):
            if other.incarnation != client.incarnation and other.home != self.core.id:
                where = f"a publisher named {client.name} is at {other.home_name}"
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
            self.advertisements.unadvertise(client, key, self.core.now)
