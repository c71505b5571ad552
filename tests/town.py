"""A back end, brokers and clients in one process, their links made by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from grapevine.client.session import Attachment, Session
from grapevine.client.session.channels import ChannelSubscriptionState
from grapevine.wire import decode, encode
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.channels import DriverAnswer
from grapevine.wire.driving import (
    Commit,
    Plan,
    PlanAsk,
    Put,
    Rows,
    RowsAsk,
    Serve,
    Serving,
    Sets,
    SetsAsk,
    encode_body,
    run_of,
)
from grapevine.wire.driving import decode_body as body_of
from grapevine.wire.messages import Detach, Message
from grapevine.wire.parameters import Parameter
from overlay.channels.store import memory_disks
from overlay.channels.verbs import ChannelVerbs
from overlay.core import Core
from overlay.links.session import Kind
from overlay.profiles.tree import tree_broker
from overlay.settings import BalancingSettings, CoreSettings, TreeSettings

FEED = Dataset("Reports", "class = 'report'", (("id", "bigint"),))
CHANNEL = Channel(
    "Near", "SELECT id FROM Reports WHERE id > :low", (Parameter("low", "bigint"),), 10, ("Reports",)
)


class Town:
    """Brokers by address and clients, joined by links that can be cut."""

    def __init__(
        self, brokers: tuple[str, ...] = ("edge",), balancing: BalancingSettings | None = None
    ) -> None:
        """With `balancing` the back end is the coordinator, too."""
        self.balancing = balancing
        self.locations: dict[str, tuple[float, ...]] = {}
        self.now = 100.0
        self.validates = True
        self.drive_version = 1  # of the channel, that the driver knows
        self.disks = memory_disks()
        self.kept: dict[str, dict[str, dict[str, bytes]]] = {}  # broker -> its records
        self.cores: dict[str, Core] = {}
        self.incarnation = 1
        self.sessions: dict[str, tuple[Session, str, int]] = {}  # name -> session, broker, its link
        self.pipes: dict[tuple[str, int], tuple[str, int]] = {}  # (address, link) -> the other end
        self.links = 0
        self.gone: list[tuple[str, str, str]] = []  # clients that went elsewhere: name, from, to
        self.aways: dict[tuple[str, int], Attachment] = {}  # (name, link) of a client's second attachment
        for name in ("back", *brokers):
            self.start(name)
        self.run()

    def start(self, name: str) -> None:
        self.incarnation += 1
        back = name == "back"
        settings = CoreSettings(
            tree=TreeSettings(neighbours=() if back else ("back",)),
            balancing=self.balancing or BalancingSettings(),
        )
        core = tree_broker(
            name, self.incarnation, settings, Random(1), (name,), kept=self.kept.get(name, {}),
            coordinator=back and self.balancing is not None, disks=self.disks if back else None,
            backend="" if back else "back", location=self.locations.get(name, ()),
        )  # fmt: skip
        self.cores[name] = core
        core.start(self.now)

    def crash(self, name: str) -> None:
        del self.cores[name]
        for disk in self.disks if name == "back" else ():
            disk.crash()  # type: ignore[attr-defined]
        for (place, link), (other, theirs) in list(self.pipes.items()):
            if place == name:
                del self.pipes[place, link]
                self.pipes.pop((other, theirs), None)
                self._down(other, theirs)
        self.run()

    def _down(self, place: str, link: int) -> None:
        if place in self.cores:
            self.cores[place].link_down(link, self.now)
        elif place in self.sessions:
            away = self.aways.pop((place, link), None)
            (self.sessions[place][0] if away is None else away).link_down(self.now)

    def attach(self, name: str, broker: str, session: Session | None = None, run: bool = True) -> Session:
        session = session or Session(name, self.incarnation * 10)
        session.channels.kept = True
        self.links += 1
        self.sessions[name] = (session, broker, self.links)
        self._join(name, broker)
        session.link_up(self.now)
        if run:
            self.run()
        return session

    def cut(self, name: str, run: bool = True) -> None:
        session, broker, link = self.sessions[name]
        self.pipes.pop((broker, link), None)
        self.pipes.pop((name, link), None)
        session.link_down(self.now)
        if broker in self.cores:
            self.cores[broker].link_down(link, self.now)
        if run:
            self.run()

    def run(self, seconds: float = 0.0) -> None:
        end = self.now + seconds
        while True:
            if not self._turn():
                due = [d for core in self.cores.values() if (d := core.next_deadline()) is not None]
                later = min(due, default=end + 1)
                if later > end:
                    break
                self.now = max(later, self.now)
        self.now = end

    def _turn(self) -> bool:
        busy = False
        for place, core in list(self.cores.items()):
            core.tick(self.now)
            while core.work(self.now):
                pass
            out = core.flush(self.now)
            assert not out.fatal, out.fatal
            sends = [(message, links) for message, links in out.sends]
            sends += [(batch, (link,)) for link, batch in out.batches]
            for record in out.journal:
                table = self.kept.setdefault(place, {}).setdefault(record.table, {})
                table.pop(record.key, None)
                if record.value is not None:
                    table[record.key] = record.value
            opens = list(out.opens)
            out.clear()
            busy |= bool(sends or opens)
            for open_ in opens:
                self._open(place, open_.dial, open_.addresses)
            for message, links in sends:
                for link in links:
                    self._carry(place, link, message)
            if self.validates:
                core.validate()
        for name, (session, _, _) in list(self.sessions.items()):
            session.tick(self.now)
            busy |= self._go(name, session)
            session.flush_out()
            busy |= self._second(name, session)
            link = self.sessions[name][2]
            sent, session.out = session.out, []
            busy |= bool(sent)
            for message in sent:
                self._carry(name, link, message)
        return busy

    def _second(self, name: str, session: Session) -> bool:
        """Links of attachments beside the main one, as the client's engine does."""
        mine = {away: link for (who, link), away in self.aways.items() if who == name}
        for away in session.moving.attachments:
            if away not in mine and (broker := next((a for a in away.addresses if a in self.cores), None)):
                self.links += 1
                mine[away] = self.links
                self.aways[name, self.links] = away
                self._join(name, broker)
                away.link_up(self.now)
        busy = False
        for away, link in mine.items():
            sent, away.out = away.out, []
            busy |= bool(sent)
            for message in sent:
                self._carry(name, link, message)
        for away in session.moving.closing:
            self._hang_up(name, mine[away])
            del self.aways[name, mine[away]]
        session.moving.closing.clear()
        return busy or self._promote(name, session, mine)

    def _promote(self, name: str, session: Session, mine: dict[Attachment, int]) -> bool:
        moving = session.moving
        if moving.promoted is None:
            return False
        _, before, link = self.sessions[name]
        for message in moving.farewell:
            self._carry(name, link, message)
        self._hang_up(name, link)
        link = mine[moving.promoted]
        self.sessions[name] = (session, self.pipes[name, link][0], link)
        del self.aways[name, link]
        self.gone.append((name, before, session.broker_name))
        moving.promoted, moving.farewell = None, []
        return True

    def _join(self, name: str, broker: str) -> None:
        self.pipes[broker, self.links] = (name, self.links)
        self.pipes[name, self.links] = (broker, self.links)
        self.cores[broker].link_up(self.links, name, Kind.CLIENT, self.now)

    def _hang_up(self, name: str, link: int) -> None:
        broker, _ = self.pipes.pop((name, link), ("", 0))
        self.pipes.pop((broker, link), None)
        if broker in self.cores:
            self.cores[broker].link_down(link, self.now)

    def _go(self, name: str, session: Session) -> bool:
        """Where a broker has sent it, as the client's engine does."""
        events, session.events = session.events, []
        named = next((event.addresses for event in events if event.what == "go-away"), ())
        there = next((address for address in named if address in self.cores), None)
        if there is None:
            return False
        if session.channels.alone:
            self._carry(name, self.sessions[name][2], Detach())
        self.gone.append((name, self.sessions[name][1], there))
        self.cut(name, run=False)
        self.attach(name, there, session, run=False)
        return True

    def _open(self, place: str, dial: int, addresses: tuple[str, ...]) -> None:
        other = next((a for a in addresses if a in self.cores), None)
        if other is None:
            return
        self.links += 2
        here, there = self.links - 1, self.links
        self.pipes[place, here] = (other, there)
        self.pipes[other, there] = (place, here)
        self.cores[other].link_up(there, place, Kind.PEER, self.now)
        self.cores[place].link_up(here, other, Kind.PEER, self.now, dial)

    def _carry(self, place: str, link: int, message: Message) -> None:
        to = self.pipes.get((place, link))
        if to is None:
            return
        other, theirs = to
        message = decode(encode(message))
        if other in self.sessions:
            (self.aways.get(to) or self.sessions[other][0]).receive(message, self.now)
        elif type(message).__name__ in ("Batch", "Publish"):
            self.cores[other].publications(theirs, message, self.now)  # type: ignore[arg-type]
        elif other in self.cores:
            self.cores[other].receive(theirs, message, self.now)

    # --- the driver -----------------------------------------------------------------------------------------

    def ask(self, verb: str, value: Any) -> DriverAnswer:
        ask = self.sessions["driver"][0].channels.ask(verb, encode_body(value))
        self.run()
        assert ask.answer is not None, verb
        return ask.answer

    def drive(self, commit: bool = True, rows: int = 1) -> Plan | None:
        """One execution: each set gets a row for each new report above its parameter."""
        version = self.drive_version
        if "driver" not in self.sessions:
            self.attach("driver", "back")
        lease = body_of(self.ask("serve", Serve("d", 1)).body, Serving).lease
        answer = self.ask("plan", PlanAsk(lease, "Near", version))
        if answer.outcome != "done":
            assert answer.outcome == "idle", answer
            return None
        plan = body_of(answer.body, Plan)
        (_, after, up_to) = plan.cuts[0]
        read = body_of(self.ask("rows", RowsAsk("Reports", after, up_to, 1 << 20)).body, Rows)
        ids = [msgspec.msgpack.decode(row.attributes)["id"] for _, row in read.rows]
        sets = body_of(self.ask("sets", SetsAsk("Near", version, plan.generation)).body, Sets)
        runs = []
        for be, form in sets.sets:
            (low,) = msgspec.msgpack.decode(form)
            found = [
                msgspec.msgpack.encode((plan.at, {"id": i})) for i in ids if i > low for _ in range(rows)
            ]
            if found:
                runs.append(run_of(be, found))
        assert self.ask("put", Put(lease, "Near", version, plan.execution, 7, 0, runs)).outcome == "done"
        if commit:
            assert self.ask("commit", Commit(lease, "Near", version, plan.execution, 7, 1)).outcome == "done"
        return plan


def founded(brokers: tuple[str, ...] = ("edge",), balancing: BalancingSettings | None = None) -> Town:
    """With the dataset and the channel, and a publisher."""
    found = Town(brokers, balancing)
    verbs = next(b for b in found.cores["back"].behaviours if isinstance(b, ChannelVerbs))
    assert verbs.desk is not None and verbs.feeds is not None
    store = verbs.desk.store
    store.catalog.create([FEED], [CHANNEL])
    store.executions.begin(store.catalog.channels["Near"])
    store.note_catalog()
    verbs.feeds.begin(FEED, found.now)
    found.run()
    found.attach("publisher", brokers[0])
    return found


def publish(town: Town, *ids: int) -> None:
    session = town.sessions["publisher"][0]
    for each in ids:
        session.publish({"class": "report", "id": each})
    town.run(0.1)
    assert session.outgoing.settled == session.outgoing.appended, "not settled"


def subscribe(town: Town, name: str, low: int, after: int | None = None) -> ChannelSubscriptionState:
    session = town.sessions[name][0]
    state = session.channels.subscribe("Near", {"low": low}, after, town.now, 5.0)
    town.run(0.1)
    return state


def ids(town: Town, name: str, state: ChannelSubscriptionState) -> list[int]:
    town.run(0.1)
    found = town.sessions[name][0].channels.take(state, 1000)
    town.run(0.1)
    positions = [each.position for each in found]
    assert positions == sorted(set(positions))
    return [each.row["id"] for each in found]
