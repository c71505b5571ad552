"""Who is in the overlay, as far as anybody has ever told: brokers and links with numbers that stay.

Nobody vanishes. A broker that a neighbour misses is "no answer", one known to be behind such a broker is
"cut off", one that nobody names any more is "gone" since a time; one that said it leaves has "left". What is
known of an absent broker stays as it was, with its age.
"""

from __future__ import annotations

from typing import Any

from tools.web.model import Beat, Broker, Link, Look, Overlay, Publisher

FORGOTTEN_S = 86_400.0


class Members:
    def __init__(self) -> None:
        self.g = 0  # rises with every change of the overlay document
        self.asked = ""
        self.kind = "tree"
        self.settings: dict[str, str] = {}
        self.strategies: dict[str, int] = {}
        self.publishers: list[Publisher] = []
        self.brokers: dict[str, Broker] = {}
        self.beats: dict[str, Beat] = {}
        self.heard_at: dict[str, float] = {}
        self.links: dict[tuple[str, str, str], Link] = {}
        self.left_out = 0
        self._generations: dict[str, tuple[int, int]] = {}

    # --- pulses -------------------------------------------------------------------------------------

    def take(self, look: Look, now: float) -> list[tuple[str, str, str]]:
        """The changes of state as (broker, before, after)."""
        self.asked = look.asked or self.asked
        self.left_out = look.left_out
        changed: list[tuple[str, str, str]] = []
        answered = set()
        for beat in look.beats:
            answered.add(beat.name)
            self.beats[beat.name] = beat
            self.heard_at[beat.name] = now
            broker = self._broker(beat.name)
            self._state(broker, beat.state, now, changed)
            if broker.incarnation != beat.incarnation:
                broker.incarnation, broker.since = beat.incarnation, None
                self.g += 1
        missing = [name for name in look.missing if name not in answered]
        cut_off = [name for name in look.cut_off if name not in answered and name not in missing]
        for name in missing:
            self._state(self._broker(name), "no answer", now, changed)
        for name in cut_off:
            self._state(self._broker(name), "cut off", now, changed)
        if not look.left_out:
            named = answered.union(missing, cut_off)
            for name, broker in self.brokers.items():
                if name not in named and broker.state not in ("gone", "left"):
                    self._state(broker, self._absent(broker, set(missing)), now, changed)
        return changed

    def _absent(self, broker: Broker, missing: set[str]) -> str:
        """Nobody names it: behind one that does not answer, left by its own will, or gone."""
        names = {other.i: name for name, other in self.brokers.items()}
        at: Broker | None = broker
        for _ in range(len(self.brokers)):
            if at is None or at.parent is None:
                break
            above = names.get(at.parent, "")
            if above in missing:
                return "cut off"
            at = self.brokers.get(above)
        return "left" if broker.state == "leaving" else "gone"

    def _state(self, broker: Broker, state: str, now: float, changed: list[tuple[str, str, str]]) -> None:
        if broker.state == state:
            return
        changed.append((broker.name, broker.state, state))
        broker.state = state
        broker.since = now if state in ("no answer", "cut off", "gone", "left") else None
        self.g += 1

    def _broker(self, name: str) -> Broker:
        broker = self.brokers.get(name)
        if broker is None:
            broker = self.brokers[name] = Broker(len(self.brokers), name, state="")
            self.g += 1
        return broker

    @property
    def changed_shape(self) -> bool:
        """Whether a pulse names a generation whose overlay is not known yet."""
        return any(
            self._generations.get(b.name) != (b.incarnation, b.generation) for b in self.beats.values()
        )

    # --- the overlay --------------------------------------------------------------------------------

    def shape(self, reports: list[dict[str, Any]], publishers: list[Publisher] | None = None) -> None:
        """What `topo.show` says: parents, addresses, links."""
        self._generations = {b.name: (b.incarnation, b.generation) for b in self.beats.values()}
        links: dict[tuple[str, str, str], Link] = {}
        for report in reports:
            broker = self._broker(report["name"])
            parent = report.get("parent")
            broker.parent = self._broker(parent).i if parent else None
            broker.addresses = list(report.get("addresses", ()))
            broker.host = host_of(broker.addresses)
            broker.ring, broker.segments = ring_of(report), segments_of(report.get("segments"))
            broker.channels = report.get("channels")
            broker.roles = list(report.get("roles", ("broker",)))
            self.settings = dict(report.get("settings", self.settings))
            self.kind = report.get("overlay", self.settings.get("overlay.kind", "tree"))
            for row in report.get("rows", ()):
                link = self._link(links, report["name"], row)
                if link is not None and broker.ring is not None and link.kind in ("primary", "finger"):
                    link.kind = "successor" if row["name"] in broker.ring["successors"][:1] else "finger"
        told = {report["name"] for report in reports}
        for key, link in self.links.items():
            if not told & {key[0], key[1]}:  # both ends are silent: it is as it was
                links.setdefault(key, link)
        self.links = links
        if publishers is not None:
            self.publishers = publishers
        self.g += 1

    def _link(self, links: dict[tuple[str, str, str], Link], here: str, row: dict[str, Any]) -> Link | None:
        """The link of a row, under the kind that pulses name it by; on a ring it may be called otherwise."""
        there, kind = row["name"], row.get("kind", "primary")
        if kind == "candidate" and there not in self.brokers:
            return None  # nobody is there because somebody thinks of it
        one, other = self._broker(here), self._broker(there)
        first, second = (here, there)
        if kind == "primary" and not row.get("parent"):
            first, second = there, here  # the child stands first
        key = (first, second, kind)
        link = links.get(key)
        if link is None:
            known = self.links.get(key)
            number = known.i if known is not None else self._next_link(links)
            a, b = (one.i, other.i) if first == here else (other.i, one.i)
            link = links[key] = Link(number, a, b, kind)
        past = (self.brokers.get(name) for name in row.get("bypasses", ()))
        link.bypasses = [broker.i for broker in past if broker is not None]  # an id without a name is nobody
        link.up = row.get("state") not in ("suspended",)
        return link

    def _next_link(self, links: dict[tuple[str, str, str], Link]) -> int:
        taken = max((link.i for link in (*links.values(), *self.links.values())), default=-1)
        self._last_link = max(getattr(self, "_last_link", -1), taken) + 1
        return self._last_link

    def forget(self, name: str) -> bool:
        """An absent broker is dismissed by hand, or after a day."""
        broker = self.brokers.get(name)
        if broker is None or broker.state not in ("gone", "left"):
            return False
        broker.state = "dismissed"
        self.g += 1
        return True

    def age(self, now: float) -> None:
        for name, broker in list(self.brokers.items()):
            if broker.state in ("gone", "left") and now - (broker.since or now) > FORGOTTEN_S:
                self.forget(name)

    def document(self) -> Overlay:
        shown = [broker for broker in self.brokers.values() if broker.state != "dismissed"]
        places = {broker.i for broker in shown}
        links = [link for link in self.links.values() if link.a in places and link.b in places]
        return Overlay(
            self.g, self.asked, self.kind, self.settings, self.strategies, shown, links, self.publishers
        )


def ring_of(report: dict[str, Any]) -> dict[str, Any] | None:
    """The place on a ring, if the broker says that it has one."""
    if "position" not in report or "successors" not in report:
        ring: dict[str, Any] | None = report.get("ring")
        return None if ring is None else {"successors": [], "fingers": [], **ring}
    kept = {"successors": report["successors"], "fingers": report.get("fingers", [])}
    return {"id": report["position"], **kept, "topics": report.get("root_of", 0)}


def segments_of(said: Any) -> list[dict[str, Any]] | None:
    """A one-hop member says {dimension: [[low, high], ..]}, an end that is open being null."""
    if not isinstance(said, dict):
        return said if isinstance(said, list) else None
    return [
        {"dimension": name, "low": low, "high": high} for name, spans in said.items() for low, high in spans
    ]


def host_of(addresses: list[str]) -> str:
    """The machine of an address, as far as the address says."""
    for address in addresses:
        scheme, _, rest = address.partition("://")
        if scheme == "tcp":
            return rest.rpartition(":")[0].strip("[]")
        if scheme in ("ipc", "inproc"):
            return "this machine"
        if scheme == "sim":
            return rest.partition("/")[0] if "/" in rest else "simulator"
    return ""
