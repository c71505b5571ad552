"""SPEC A2, A3: the back end towards brokers: takes subscribers' wishes, tells of executions, is pulled.

A wish is answered when it is on disk. A broker whose link is gone
keeps its back-end subscriptions for a while: it comes back, or its subscribers come by another one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from grapevine.errors import ChannelError, ParameterError
from grapevine.wire.catalog import Channel
from grapevine.wire.channels import (
    WHOLE,
    BackendSubscribe,
    BackendSubscribed,
    BackendUnsubscribe,
    BackendWelcome,
    ChannelTroubled,
    Cursors,
    Executed,
    Pull,
    Pulled,
    execution_of,
    in_whole,
    next_execution,
    position,
)
from grapevine.wire.driving import STATE, Plan
from grapevine.wire.messages import Message
from grapevine.wire.parameters import ParameterValue, canonical, read_canonical, set_id, take_set
from overlay.behaviour import Quiet, Status
from overlay.channels.executions import store_name
from overlay.channels.interest import BackendSubscription
from overlay.channels.results import ResultsError, whole_result
from overlay.channels.sessions import BackendSession, Handlers, Inside
from overlay.channels.store import Store
from overlay.core import Core
from overlay.links.session import Kind, Session

LINGER_S = 30.0  # a broker without a link may come back
EXPIRE_S = 10.0
SAID = 8  # times in the life of a result brokers hear how far its channel is
RESULTS_IN_ONE = 20_000  # of an Executed: about half a megabyte
PIECE_BYTES = 1 << 20  # of a Pulled
ROWS_IN_ONE = 16_384
EXECUTIONS_IN_ONE = 128  # files that a range is looked for in before others have their turn
EXECUTIONS_MAX = execution_of(2**63 - 1)  # whose positions can be sent
SETS_MAX = 1_000_000
Values: TypeAlias = tuple[ParameterValue, ...]
SAID_MAX = 200  # characters of a subscriber's own words that it hears again


class BackEnd(Quiet):
    name = "back end"

    def __init__(self, store: Store) -> None:
        self.store = store
        self.brokers: dict[int, BackendSession] = {}
        self.pulled_rows = self.pulled_bytes = self.pulls = 0
        self.produced: dict[int, int] = {}  # by back-end subscription: bytes of results in this life
        self._carried: dict[int, set[int]] = {}  # by broker: sets of a new version, not asked for yet
        self._failing: dict[str, str] = {}  # by channel, why
        self._said: dict[str, float] = {}  # by channel: when brokers heard how far it is
        self._damaged: set[str] = set()  # what was noted already
        self._unsaid: dict[int, set[int]] = {}  # by broker: held before, not asked for on the new link yet
        # The last one that was asked for, by (where, execution, id).
        self._whole: tuple[tuple[str, int, int], list[bytes]] = (("", 0, 0), [])

    def attach(self, core: Core) -> None:
        self.core = core
        self.handlers: Handlers = {
            BackendSubscribe: self.on_subscribe,
            BackendUnsubscribe: self.on_unsubscribe,
            Pull: self.on_pull,
            Cursors: self.on_cursors,
        }
        for message, handler in self.handlers.items():
            core.on(message, handler)

    def start(self, now: float) -> None:
        self._expire(now)

    def _expire(self, now: float) -> None:
        self._say_how_far(now)
        self.store.executions.expire(now)
        for be, known in list(self.store.interest.by_be.items()):
            channel = self.store.catalog.channels.get(known.kept.channel)
            keep_s = channel.keep_s if channel is not None else 0.0
            for subscriber, cursor in list(known.cursors.items()):
                if cursor.touched_at < now - keep_s:
                    self.store.interest.drop_cursor(be, subscriber)
            self.release(be)
        for be in self.produced.keys() - self.store.interest.by_be.keys():
            del self.produced[be]
        self.core.timers.at(now + EXPIRE_S, self._expire)

    def _say_how_far(self, now: float) -> None:
        """Before anything expires: who had nothing for long is not to look like one who is behind."""
        for channel in self.store.catalog.channels.values():
            if now >= self._said.setdefault(channel.name, now) + channel.keep_s / SAID:
                self._said[channel.name] = now
                self.tell(Executed(channel.name, self._executed(channel.name), ()), *self.brokers.values())

    def tell(self, message: Message, *sessions: Session) -> None:
        for session in sessions:
            if isinstance(session, Inside):
                session.to_front(message)
            else:
                self.core.tell(message, session)

    # --- brokers come and go ------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, BackendSession) and not session.dialled:
            self.brokers[session.id] = session
            held = (be for be, known in self.store.interest.by_be.items() if session.id in known.brokers)
            self._unsaid[session.id] = set(held)
            self.core.timers.at(now + LINGER_S, lambda later: self._forget_unsaid(session, later))
            self.core.tell(BackendWelcome(self.core.incarnation), session)

    def _forget_unsaid(self, session: BackendSession, now: float) -> None:
        """What a broker held on an earlier link and has not asked for on this one."""
        if self.brokers.get(session.id) is session:
            self._let_go(session.id, self._unsaid.pop(session.id, set()), now)

    def _await(self, session: BackendSession, carried: set[int], now: float) -> None:
        """Sets that went over to a new version: the broker asks for them on this link, or wants them no
        more."""
        self._carried.setdefault(session.id, set()).update(carried)

        def forget(later: float) -> None:
            left = carried & self._carried.get(session.id, set())
            self._carried.get(session.id, set()).difference_update(carried)
            if self.brokers.get(session.id) is session:
                self._let_go(session.id, left, later)

        self.core.timers.at(now + LINGER_S, forget)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, BackendSession) and not session.dialled:
            self.core.timers.at(now + LINGER_S, lambda later: self._gone(session, later))

    def _gone(self, session: BackendSession, now: float) -> None:
        """Nobody with this name came back in time."""
        if session.link is not None or self.brokers.get(session.id) is not session:
            return
        del self.brokers[session.id]
        self._unsaid.pop(session.id, None)
        self._let_go(session.id, set(self.store.interest.by_be), now)

    def _let_go(self, broker: int, of: set[int], now: float) -> None:
        for be in sorted(of):
            known = self.store.interest.by_be.get(be)
            if known is not None and broker in known.brokers:
                known.brokers.discard(broker)
                self.release(be)

    def release(self, be: int) -> None:
        known = self.store.interest.by_be.get(be)
        if known is not None and not known.wanted:
            self.store.interest.release(be, self.store.executions.planned(known.kept.channel))

    # --- subscribing --------------------------------------------------------------------------------------

    def on_subscribe(self, session: Session, message: BackendSubscribe, now: float) -> None:
        try:
            channel = self.store.catalog.channel(message.channel)
            given = msgspec.msgpack.decode(message.parameters, type=dict[str, Any])
            values = take_set(channel.parameters, given)
        except ParameterError as error:
            said = (error.name[:SAID_MAX], error.expected, repr(error.given)[:SAID_MAX])
            text = msgspec.json.encode(said).decode()
            self._refuse(session, message, "parameter", text)
            return
        except ChannelError as error:
            self._refuse(session, message, "unknown", str(error))
            return
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._refuse(session, message, "parameter", '["parameters", "a map", ""]')
            return
        values, be = self._set_of(channel, given, values, message)
        form = canonical(values)
        if len(self.store.interest.by_be) >= SETS_MAX and be not in self.store.interest.by_be:
            self._refuse(session, message, "limit", f"{SETS_MAX} parameter sets are subscribed already")
            return
        first = self._executed(channel.name) + 1 + (channel.name in self.store.executions.plans)
        known = self.store.interest.enter(be, channel.name, channel.version, form, first=first)
        if known is None:
            self._refuse(session, message, "limit", "another parameter set has the same id: change a value")
            return
        known.brokers.add(session.id)
        for awaited in (self._unsaid, self._carried):
            awaited.get(session.id, set()).discard(be)
        after, lost = self._begin(channel, known, message)
        if message.subscriber:
            at = 0 if message.subscriber in known.cursors else after
            self.store.interest.move_cursor(be, message.subscriber, at, now)
        executed = self._executed(channel.name)
        taken = msgspec.msgpack.encode({p.name: value for p, value in zip(channel.parameters, values)})
        found = (be, after, executed, lost, taken, self._failing.get(channel.name, ""))
        self.tell(BackendSubscribed(message.request, "confirmed", *found), session)

    def _set_of(
        self, channel: Channel, given: dict[str, Any], values: Values, message: BackendSubscribe
    ) -> tuple[Values, int]:
        """The set with these values; for who goes on and came over from an earlier version, the one that it
        has been in since then: that one has its results of before, and what was a default when it came."""
        be = set_id(channel.name, channel.version, canonical(values))
        if not (message.after or message.subscriber):
            return values, be
        for version, declared in sorted(self.store.catalog.declared.get(channel.name, {}).items()):
            names = {parameter.name for parameter in declared}
            try:
                taken = take_set(declared, {name: value for name, value in given.items() if name in names})
            except ParameterError:
                continue
            before = set_id(channel.name, version, canonical(taken))
            found = self.store.interest.carried(before, channel.version, message.subscriber)
            if found is None:
                continue
            there = read_canonical(channel.parameters, found.kept.form)
            pairs = zip(channel.parameters, there, values)
            if all(one == other for parameter, one, other in pairs if parameter.name in given):
                return there, found.be
        return values, be

    def _refuse(self, session: Session, message: BackendSubscribe, outcome: str, text: str) -> None:
        self.tell(BackendSubscribed(message.request, outcome, text=text), session)

    def _executed(self, channel: str) -> int:
        progress = self.store.executions.progress.get(channel)
        return 0 if progress is None else progress.executed

    def _begin(
        self, channel: Channel, known: BackendSubscription, message: BackendSubscribe
    ) -> tuple[int, int]:
        """After which position results are due, and how many executions before it are no longer kept."""
        executed = self._executed(channel.name)
        plan = self.store.executions.plans.get(channel.name)
        counted = plan is None or known.kept.entered <= plan.generation
        fresh = position(executed if counted else executed + 1)
        cursor = known.cursors.get(message.subscriber)
        if message.after:
            after = message.after - 1
        elif cursor is not None:
            after = cursor.position
        else:
            return self._first(channel, known, fresh), 0
        after = min(after, fresh)
        if lost := self._expired(known, after):
            return self._first(channel, known, position(next_execution(after) + lost - 1)), lost
        without = max(known.kept.first - execution_of(after) - 1, 0)
        if without:  # nobody wanted the set for a while: these ran without it
            rows, through, _ = self._read(known.be, after, known.kept.first - 1, 1)
            after = after if rows else through  # so that it is told once
        return after, without

    def _expired(self, known: BackendSubscription, after: int) -> int:
        """How many executions after a position are no longer kept, with one that it is in the midst of."""
        following = self._executed(known.kept.channel) + 1
        oldest = next((execution for _, execution, _ in self._executions(known)), following)
        return max(oldest - next_execution(after), 0)

    def _first(self, channel: Channel, known: BackendSubscription, fresh: int) -> int:
        """Where one begins that nothing is known of. Changes mean nothing without what they change: it gets
        the whole result, unless the set's first execution is yet to come and brings it."""
        executed = self._executed(channel.name)
        if channel.new or known.kept.first > executed:
            return fresh
        return position(executed, WHOLE)

    def on_unsubscribe(self, session: Session, message: BackendUnsubscribe, now: float) -> None:
        be = message.be
        if message.subscriber:
            be = self._now(be)
            self.store.interest.drop_cursor(be, message.subscriber)
        elif (known := self.store.interest.by_be.get(be)) is not None:
            known.brokers.discard(session.id)
        self.release(be)

    def on_cursors(self, session: Session, message: Cursors, now: float) -> None:
        for be, at in message.cursors:
            self.store.interest.move_cursor(self._now(be), message.subscriber, at, now)

    def _now(self, be: int) -> int:
        """A broker may speak of a set by the id that it had before its channel was replaced."""
        return self.store.interest.later.get(be, be)

    # --- executions ---------------------------------------------------------------------------------------

    def executed(self, plan: Plan, now: float) -> None:
        """Tell each broker of the results that it holds."""
        index = self.store.results.index(store_name(plan.channel, plan.version), plan.execution)
        of: dict[int, list[tuple[int, int, int]]] = {}
        for be, extent in index.items():
            known = self.store.interest.by_be.get(be)
            if be == STATE:
                continue
            self.produced[be] = self.produced.get(be, 0) + extent.size
            for broker in known.brokers if known is not None else ():
                of.setdefault(broker, []).append((be, extent.rows, extent.size))
        for broker, results in of.items():
            session = self.brokers.get(broker)
            for at in range(0, len(results), RESULTS_IN_ONE):
                if session is not None:
                    part = tuple(sorted(results[at : at + RESULTS_IN_ONE]))
                    self.tell(Executed(plan.channel, plan.execution, part), session)

    def troubled(self, channel: str, outcome: str, text: str) -> None:
        self._failing.pop(channel, None)
        if outcome == "trouble":
            self._failing[channel] = text
        self.tell(ChannelTroubled(channel, outcome, text), *self.brokers.values())

    def on_pull(self, session: Session, message: Pull, now: float) -> None:
        left = message.credit_bytes
        last_one = min(message.execution, EXECUTIONS_MAX)
        self.pulls += 1
        for number, (be, after) in enumerate(message.ranges, 1):
            last = number == len(message.ranges)
            known = self.store.interest.by_be.get(be)
            if known is not None and self._expired(known, after):
                # Passed over in silence it would miss rows: who is so far behind hears where it goes on.
                self.tell(ChannelTroubled(known.kept.channel, "expired", ""), session)
                self.tell(Pulled(message.request, be, (), after, last), session)
                continue
            rows, through, size = self._read(be, after, last_one, left)
            left = max(left - size, 0)
            self.pulled_rows += len(rows)
            self.pulled_bytes += size
            self.tell(Pulled(message.request, be, tuple(rows), through, last), session)

    def _read(self, be: int, after: int, up_to: int, most: int) -> tuple[list[tuple[int, bytes]], int, int]:
        """Rows after a position, where they end, their bytes; one row at least while there is credit."""
        known = self.store.interest.by_be.get(be)
        if known is None:
            return [], max(after, position(up_to)), 0
        found: list[tuple[int, bytes]] = []
        size = 0
        most = min(most, PIECE_BYTES)
        looked_at = 0
        for store, execution, at_the_time in self._executions(known, execution_of(after)):
            if execution > up_to:
                break
            if looked_at >= EXECUTIONS_IN_ONE:
                return found, max(after, position(execution - 1)), size
            looked_at += 1
            whole = in_whole(after) and execution == execution_of(after)
            read = self._whole_rows if whole else self._rows
            rows = enumerate(read(store, execution, at_the_time), WHOLE + 1 if whole else 1)
            for number, row in rows:
                at = position(execution, number)
                if at <= after:
                    continue
                if (size + len(row) > most and (found or not most)) or len(found) >= ROWS_IN_ONE:
                    return found, found[-1][0] if found else after, size
                found.append((at, row))
                size += len(row)
        return found, max(after, position(up_to)), size

    def _whole_rows(self, store: str, execution: int, be: int) -> list[bytes]:
        """The result of the set as the execution left it; who pulls it in pieces asks again and again."""
        key = (store, execution, be)
        if self._whole[0] != key:
            at = self.store.executions.times.get(store, {}).get(execution, 0.0)
            self._whole = (key, whole_result(self._rows(store, execution, STATE), be, at))
        return self._whole[1]

    def _rows(self, store: str, execution: int, be: int) -> list[bytes]:
        """A file that cannot be read costs its execution and nothing else."""
        try:
            return self.store.results.read(store, execution, be)
        except ResultsError as error:
            if str(error) not in self._damaged:
                self._damaged.add(str(error))
                self.core.note(self.core.now, f"results of {store}, execution {execution}: {error}")
            return []

    def _executions(self, known: BackendSubscription, first: int = 0) -> Iterator[tuple[str, int, int]]:
        """(where, execution, id at the time) from `first` on, rising: executions count on when a channel is
        replaced. A day of a channel that runs every second is 86,400 of them."""
        kept = known.kept
        for version, be in (*kept.earlier, (kept.version, known.be)):
            store = store_name(kept.channel, version)
            executions = self.store.results.executions(store)
            for at in range(bisect_left(executions, first), len(executions)):
                yield store, executions[at], be

    # --- a channel is replaced ----------------------------------------------------------------------------

    def replaced(self, old: Channel, new: Channel, voided: Plan | None, now: float) -> None:
        """Sets whose values the new version takes go on in it, those of the plan that was open before others;
        brokers ask again for all, and hear of those that do not."""
        interest = self.store.interest
        planned = interest.generation if voided is None else voided.generation
        sets = [
            known
            for known in interest.by_be.values()
            if (known.kept.channel, known.kept.version) == (old.name, old.version) and not known.kept.left
        ]
        carried = self._carry([known for known in sets if known.kept.entered <= planned], old, new, now)
        if voided is not None:
            self.store.executions.plan_again(voided, new, interest.generation)
        for broker, more in self._carry(
            [known for known in sets if known.kept.entered > planned], old, new, now
        ).items():
            carried.setdefault(broker, set()).update(more)
        for broker, bes in carried.items():
            if (session := self.brokers.get(broker)) is not None:
                self._await(session, bes, now)
        self.troubled(new.name, "replaced", f"channel {new.name} has version {new.version} now")

    def _carry(
        self, sets: list[BackendSubscription], old: Channel, new: Channel, now: float
    ) -> dict[int, set[int]]:
        """By broker, what its sets have become."""
        carried: dict[int, set[int]] = {}
        for known in sets:
            kept = known.kept
            names = [parameter.name for parameter in old.parameters]
            try:
                given = dict(zip(names, read_canonical(old.parameters, kept.form)))
                form = canonical(take_set(new.parameters, given))
            except ParameterError:
                continue
            found = self.store.interest.replace(known, new.version, form, now)
            if found is not None:
                for broker in found.brokers:
                    carried.setdefault(broker, set()).add(found.be)
        return carried

    # --- what it looks like -------------------------------------------------------------------------------

    def status(self) -> Status:
        return {
            "channels": len(self.store.catalog.channels),
            "back_end_subscriptions": sum(not k.kept.left for k in self.store.interest.by_be.values()),
            "brokers": sorted(session.name for session in self.brokers.values() if session.link is not None),
            "pulls": self.pulls,
            "pulled_rows": self.pulled_rows,
            "pulled_bytes": self.pulled_bytes,
        }

    def validate(self) -> None:
        self.store.interest.validate()
        for be, known in self.store.interest.by_be.items():
            assert known.be == be
            assert known.kept.left or known.kept.entered <= self.store.interest.generation, be
        assert all(session.kind is Kind.BESIDE for session in self.brokers.values())
