"""One look each interval: pulses in, documents out. Pure but for the source it is given.

What changed by more than two per cent is told, everything every thirtieth time and to who comes new. The
overlay is asked again only when a broker says that its part of it has changed. Changes that no broker can
tell of itself (it does not answer, it is back, it was restarted) become events here.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tools.pubctl.failure import Failure
from tools.web import model
from tools.web.health import health
from tools.web.history import History
from tools.web.members import Members
from tools.web.model import Broker, Event, Look, Overlay, Publisher, Pulse, Rate, SourceState, Total
from tools.web.rates import NO_RATE, UNKNOWN, Rates, summed
from tools.web.source import Source

WHOLE_EVERY = 30
TOLD = 0.02  # a smaller change is not
OLD = 3  # intervals after which a fact is old
EVENTS = 2_000
PUBLISHERS_EVERY = 5  # looks
ABSENCES = {"no answer": ("no answer", "bad"), "cut off": ("cut off", "bad"), "gone": ("gone", "bad")}


class Engine:
    def __init__(self, source: Source, every_s: float) -> None:
        self.source = source
        self.every_s = every_s
        self.members = Members()
        self.rates = Rates()
        self.history = History(every_s)
        self.events: deque[Event] = deque(maxlen=EVENTS)
        self.state = source.state
        self.looks = 0
        self.total: Total | None = None
        self._event_number = 0
        self._rows: dict[int, list[Any]] = {}
        self._link_rows: dict[int, list[Any]] = {}
        self._sent: dict[int, list[Any]] = {}
        self._link_sent: dict[int, list[Any]] = {}
        self._g_told = -1
        self._now = 0.0
        self._heard_at = 0.0
        self._incarnations: dict[str, int] = {}

    # --- a look -------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Any]:
        """Documents to tell, in order: overlay, pulse, events, source."""
        told: list[Any] = []
        try:
            look = self.source.pulse()
        except Failure as failure:
            return self._lost(failure, now)
        self._heard_at = now
        if self.source.kind != "broker" and look.t_ms:
            now = look.t_ms / 1000  # a recording and a simulation have their own time
        self._now = now
        told += self._changed_source(SourceState("ok", look.asked, 0.0, "", self.source.kind))
        changed = self.members.take(look, now)
        told_events = self._absences(changed, now) + self._restarts(look, now)
        self._shape(look)
        self.rates.take(look.beats)
        pulse = self._pulse(now)
        if self.members.g != self._g_told:
            self._g_told = self.members.g
            told.append(self.members.document())
        told.append(pulse)
        told += told_events + self._read_events(look)
        self.looks += 1
        return told

    def _lost(self, failure: Failure, now: float) -> list[Any]:
        age_s = now - self._heard_at if self._heard_at else 0.0
        ended = str(failure).endswith("has ended")
        state = "ended" if ended else "lost" if age_s > OLD * self.every_s or not self._heard_at else "slow"
        next_one = getattr(self.source, "next", "")
        reason = f"{failure}" + (f"; {next_one} is tried next" if next_one and state == "lost" else "")
        return self._changed_source(
            SourceState(state, self.members.asked, round(age_s, 1), reason, self.source.kind), always=True
        )

    def _changed_source(self, state: SourceState, always: bool = False) -> list[Any]:
        before, self.state = self.state, state
        return [state] if always or before.state != state.state or before.asked != state.asked else []

    def _shape(self, look: Look) -> None:
        if not self.members.changed_shape and self.looks % PUBLISHERS_EVERY:
            return
        try:
            if self.members.changed_shape:
                self.members.shape(self.source.overlay())
                self._places()
            self._publishers()
        except Failure:
            pass  # the next look asks again

    def _publishers(self) -> None:
        if self.looks % PUBLISHERS_EVERY:
            return
        body = self.source.ask("relocate.show").body
        brokers = self.members.brokers
        found = [
            Publisher(row["publisher"], brokers[row["at"]].i, body["algorithms"].get(row["at"], ""))
            for row in body.get("publishers", ())
            if row["at"] in brokers
        ]
        if found != self.members.publishers:
            self.members.publishers = found
            self.members.g += 1

    def _places(self) -> None:
        """Where else to ask, the nearest to the broker asked first."""
        if not hasattr(self.source, "places"):
            return
        members = self.members
        near: dict[int, list[int]] = {}
        for link in members.links.values():
            if link.kind == "primary":
                near.setdefault(link.a, []).append(link.b)
                near.setdefault(link.b, []).append(link.a)
        start = members.brokers.get(members.asked)
        order, seen = [], set()
        waiting = deque([start.i] if start is not None else [])
        by_number = {broker.i: broker for broker in members.brokers.values()}
        while waiting:
            at = waiting.popleft()
            if at in seen:
                continue
            seen.add(at)
            order.append(by_number[at])
            waiting.extend(near.get(at, ()))
        addresses = [broker.addresses[0] for broker in order[1:] if broker.addresses]
        self.source.places = addresses[:50]

    # --- rows ---------------------------------------------------------------------------------------

    def _pulse(self, now: float) -> Pulse:
        column = self.history.begin(now)
        self._rows = {}
        for broker in self.members.brokers.values():
            if broker.state != "dismissed":
                self._rows[broker.i] = row = self._row(broker, now)
                present = not row[1] & model.ABSENT
                values = [row[2], row[3], row[6], row[8], row[9], row[10]] if present else [None] * 6
                self.history.brokers.write(column, broker.i, values)
        self._link_rows = self._links()
        for number, row in self._link_rows.items():
            self.history.links.write(column, number, row[1:3])
        self.total = total = self._total()
        values = [
            total.in_s,
            total.accepted_s,
            total.delivered_s,
            total.forwarded_s,
            total.bypassed,
            total.slow,
        ]
        self.history.write_totals(column, now, values)
        whole = self.looks % WHOLE_EVERY == 0 or self.members.g != self._g_told
        rows = changed(self._rows, {} if whole else self._sent, flags=1)
        links = changed(self._link_rows, {} if whole else self._link_sent)
        self._sent = dict(self._rows) if whole else self._sent | {row[0]: row for row in rows}
        self._link_sent = dict(self._link_rows) if whole else self._link_sent | {row[0]: row for row in links}
        return Pulse(self.members.g, round(now, 3), rows, links, total, whole)

    def whole(self) -> Pulse | None:
        """All that is known, for who comes new."""
        if self.total is None:
            return None
        return Pulse(
            self.members.g,
            round(self._now, 3),
            [*self._rows.values()],
            [*self._link_rows.values()],
            self.total,
            True,
        )

    def overlay(self) -> Overlay:
        return self.members.document()

    def _row(self, broker: Broker, now: float) -> list[Any]:
        beat = self.members.beats.get(broker.name)
        flags = model.FLAGS.get(broker.state, 0)
        age_s = now - self.members.heard_at.get(broker.name, now)
        if beat is None:
            return [broker.i, flags, *[None] * 14, None, None]
        rates = UNKNOWN if flags & model.ABSENT else self.rates.brokers.get(broker.name, UNKNOWN)
        if beat.slow and not flags & model.ABSENT:
            flags |= model.SLOW
        if age_s > OLD * self.every_s:
            flags |= model.OLD
        return [
            broker.i,
            flags,
            rates.in_s,
            rates.out_s,
            rates.accepted_s,
            rates.delivered_s,
            beat.busy,
            beat.cpu,
            beat.queue_ms,
            beat.backlog,
            beat.slow,
            beat.clients,
            beat.slowest_ms,
            beat.memory_bytes,
            beat.subscriptions,
            beat.known,
            beat.dropped,
            round(age_s, 1) if flags & (model.OLD | model.ABSENT) else 0,
        ]

    def _links(self) -> dict[int, list[Any]]:
        """Each direction from the end that sends, or from the other if that one is silent."""
        found = {}
        members, rates = self.members, self.rates.links
        present = {b.name for b in members.brokers.values() if b.state in ("ready", "joining", "leaving")}
        reported = {
            (beat.name, link.peer, "primary" if link.kind == "suspended" else link.kind): link
            for beat in members.beats.values()
            if beat.name in present
            for link in beat.links
        }
        for (a, b, kind), link in members.links.items():
            near, far = (a, b, kind), (b, a, kind)
            here, there = rates.get(near, NO_RATE), rates.get(far, NO_RATE)
            one, other = reported.get(near), reported.get(far)
            ab_s = here.sent_s if here.sent_s is not None else there.received_s
            ba_s = there.sent_s if there.sent_s is not None else here.received_s
            if kind == "soft":
                ba_s = 0.0 if ab_s is not None else None
            unsettled = rtt_ms = gain = None
            for row in (one, other):
                if row is not None:
                    unsettled = row.unsettled if unsettled is None else max(unsettled, row.unsettled)
                    if row.rtt_ms is not None and (rtt_ms is None or row.rtt_ms > rtt_ms):
                        rtt_ms = row.rtt_ms
                    gain = row.gain if gain is None else gain
            sent = (here.sent_bytes_s, there.sent_bytes_s)
            found[link.i] = [link.i, ab_s, ba_s, *sent, unsettled, rtt_ms, gain]
        return found

    def _total(self) -> Total:
        members, rates = self.members, list(self.rates.brokers.values())
        shown = [broker for broker in members.brokers.values() if broker.state != "dismissed"]
        present = [members.beats[b.name] for b in shown if b.state in ("ready", "joining", "leaving")]
        soft_s = summed([r.sent_s for (_, _, kind), r in self.rates.links.items() if kind == "soft"])
        sent_s = summed([r.sent_s for r in self.rates.links.values()])
        bypassed: Rate = None if sent_s is None else round((soft_s or 0.0) / sent_s, 4) if sent_s else 0.0
        return Total(
            len(shown),
            sum(broker.state == "ready" for broker in shown),
            summed([r.in_s for r in rates]),
            summed([r.accepted_s for r in rates]),
            summed([r.delivered_s for r in rates]),
            summed([r.forwarded_s for r in rates]),
            bypassed,
            sum(beat.slow for beat in present),
            sum(beat.backlog for beat in present),
            sum(beat.clients for beat in present),
            sum(beat.subscriptions for beat in present),
            members.left_out,
            health(members),
        )

    # --- events -------------------------------------------------------------------------------------

    def _event(self, now: float, broker: str, kind: str, level: str, text: str, **fields: Any) -> Event:
        self._event_number += 1
        event = Event(self._event_number, round(now, 3), broker, kind, level, text, fields)
        self.events.append(event)
        return event

    def note(self, now: float, broker: str, kind: str, level: str, text: str, **fields: Any) -> Event:
        """An event of the page process itself: an action, with who and what came of it."""
        return self._event(now, broker, kind, level, text, **fields)

    def _absences(self, changed: list[tuple[str, str, str]], now: float) -> list[Event]:
        told = []
        for name, before, after in changed:
            if after in ABSENCES:
                kind, level = ABSENCES[after]
                heard = self.members.heard_at.get(name)
                ago = f", last heard {now - heard:.0f} s ago" if heard else ""
                told.append(self._event(now, name, kind, level, f"{name}: {kind}{ago}"))
            elif before in ABSENCES:
                told.append(self._event(now, name, "back", "info", f"{name} answers again", before=before))
        return told

    def _restarts(self, look: Look, now: float) -> list[Event]:
        told = []
        for beat in look.beats:
            known = self._incarnations.get(beat.name)
            if known is not None and known != beat.incarnation:
                text = f"{beat.name} was restarted; its counters begin anew"
                told.append(self._event(now, beat.name, "restart", "warn", text))
            self._incarnations[beat.name] = beat.incarnation
        return told

    def _read_events(self, look: Look) -> list[Event]:
        try:
            rows = self.source.events(look)
        except Failure:
            return []
        told = []
        for row in rows:
            fields = {
                k: v for k, v in row.items() if k not in ("n", "t_ms", "kind", "level", "text", "broker")
            }
            told.append(
                self._event(
                    row["t_ms"] / 1000, row["broker"], row["kind"], row["level"], row["text"], **fields
                )
            )
        return told


def changed(rows: dict[int, list[Any]], before: dict[int, list[Any]], flags: int = 0) -> list[list[Any]]:
    """Those that are new or in which a number moved by more than two per cent; flags are compared as such."""
    return [row for number, row in rows.items() if _differs(before.get(number), row, flags)]


def _differs(before: list[Any] | None, now: list[Any], flags: int) -> bool:
    if before is None or len(before) != len(now) or before[flags] != now[flags]:
        return True
    if before == now:
        return False
    for then, value in zip(before, now):
        if then == value:
            continue
        if then is None or value is None:
            return True
        if abs(value - then) > TOLD * max(abs(then), abs(value)):
            return True
    return False
