"""Brokers whose disk is lost (`faults.lost_disks`): they come back with an empty one, or are forgotten by an
administrator's word and come back empty or never, or come back with all that they had although they were
forgotten. Sometimes the administrator names a broker that is there: that must be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from grapevine.wire.identity import identify
from overlay.administration.forgetting import Forgetting
from overlay.core import Core
from overlay.journal.copying import Copying
from overlay.journal.stand_in import StandIns
from tools.simulator.deaths import _last_address
from tools.simulator.sectors import SectorDisk

if TYPE_CHECKING:
    from tools.simulator.apps import App
    from tools.simulator.broker import BrokerHost
    from tools.simulator.faults import FaultPlan

TRY_S, TRIES = 2.0, 12
CUT_OFF_S, LOOK_S, LOOKS = 1.4, 0.01, 130  # of the keeper from others; how often it is looked
MISTAKEN = 0.5  # share of the times that a living broker is named as well
FATES = ("empty", "forgotten", "forgotten for good", "forgotten and back")
Found = TypeVar("Found")
State = tuple["FaultPlan", "BrokerHost", str, int]


def lose_disk(plan: FaultPlan) -> None:
    """A publisher's first broker, when what it says is on two disks and cannot settle: its keeper is cut off
    from all others. Then the publisher goes as well, which would send all of it again."""
    apps = [app for app in plan.apps if app.publishes and app.host.durable and app.host.up]
    if plan.over or len(plan.running()) < 2 or not apps:
        return
    app = plan.random.choice(apps)
    broker = plan._first_broker(app)
    if broker is None or broker in plan.given_up:
        return
    keeper = _keeper(plan, broker)
    for host in (broker, keeper):
        for end in host.ends.values() if host is not None else ():
            if (
                end.other is not None
                and end.other.host in plan.brokers
                and end.other.host not in (broker, keeper)
            ):
                plan.network.clog(end, plan.world.now + CUT_OFF_S)
    _await_copies((plan, app, broker, LOOKS))


def _keeper(plan: FaultPlan, broker: BrokerHost) -> BrokerHost | None:
    round = _find(broker.core, Copying).round if broker.core is not None else None
    name = round.session.name if round is not None else ""
    return next((one for one in plan.running() if one.name == name), None)


def _await_copies(state: tuple[FaultPlan, App, BrokerHost, int]) -> None:
    plan, app, broker, looks = state
    session = app.host.session
    if plan.over or session is None or not broker.up:
        return
    if session.outgoing.persisted > session.outgoing.settled:
        plan.counts["publisher and disk"] += 1
        app.host.crash()
        plan.world.after(plan.random.uniform(0.1, 5.0), plan._client_restart, app)
    elif looks:
        plan.world.after(LOOK_S, _await_copies, (plan, app, broker, looks - 1))
        return
    _lose(plan, broker)


def _lose(plan: FaultPlan, broker: BrokerHost) -> None:
    fate = _fate(plan, broker, len(plan.running()))
    plan.counts[fate if fate == FATES[3] else f"disk lost, {fate}"] += 1
    plan.watcher.fault_at(list(broker.ends.values()), broker.last_kind, crash=True)
    broker.crash()
    plan.watcher.crashed(broker)
    if fate != "forgotten and back":
        _empty(plan, broker)
    if fate == "forgotten for good":
        plan.given_up.add(broker)
    after_s = plan.random.uniform(0.3, 1.5) * plan.lost_after_s
    if fate == "empty":
        plan.world.after(after_s, plan.restart, broker)
    else:
        plan.world.after(after_s, _forget, (plan, broker, fate, TRIES))
    if plan.random.random() < MISTAKEN:
        plan.world.after(plan.random.uniform(0.0, 5.0), _forget_living, plan)


def _fate(plan: FaultPlan, broker: BrokerHost, running: int) -> str:
    fate = plan.random.choice(FATES)
    few = 2 * running <= len(plan.brokers) + 1
    return "forgotten" if fate == "forgotten for good" and (few or _last_address(plan, broker)) else fate


def _empty(plan: FaultPlan, broker: BrokerHost) -> None:
    """All that was on its disk is gone."""
    assert broker.journal is not None
    plan.watcher.oracle.custody.disk_lost(broker.index, plan.world.now)
    broker.journal.disk = SectorDisk(broker.journal.random)
    broker.disk.kept.clear()


def _find(core: Core, kind: type[Found]) -> Found:
    return next(one for one in core.behaviours if isinstance(one, kind))


def _asked(plan: FaultPlan) -> BrokerHost | None:
    ready = [broker for broker in plan.running() if broker.core is not None and broker.core.ready]
    return plan.random.choice(ready) if ready else None


def _forget(state: State) -> None:
    """An administrator asks any broker, again until somebody has taken over."""
    plan, dead, fate, tries = state
    broker = _asked(plan)
    if dead.up:
        return
    if broker is None or broker.core is None or not tries:
        _come_back(plan, dead, fate, "")
        return

    def said(outcome: str, body: dict[str, Any], text: str) -> None:
        plan.counts[f"forget: {outcome}"] += 1
        if outcome == "ok":
            _come_back(plan, dead, fate, str(body["keeper"]))
        else:
            plan.world.after(TRY_S, _forget, (plan, dead, fate, tries - 1))

    _find(broker.core, Forgetting).forget(dead.name, False, said, broker.clock())
    broker.wake()


def _forget_living(plan: FaultPlan) -> None:
    broker = _asked(plan)
    living = plan.random.choice(plan.running()) if plan.running() else None
    if plan.over or broker is None or broker.core is None or living is None:
        return

    def said(outcome: str, body: dict[str, Any], text: str) -> None:
        plan.counts[f"forget a living one: {outcome}"] += 1
        keeper = next((one for one in plan.running() if one.name == body.get("keeper")), None)
        peers = keeper.core.peers if keeper is not None and keeper.core is not None else {}
        peer = peers.get(identify(living.name))
        if outcome == "ok" and living.up and peer is not None and peer.link is not None:
            plan.watcher.oracle.violation(f"{living.name} is there, and its custody was taken over")

    _find(broker.core, Forgetting).forget(living.name, False, said, broker.clock())
    broker.wake()


def _come_back(plan: FaultPlan, dead: BrokerHost, fate: str, keeper: str) -> None:
    if fate != "forgotten for good":
        after_s = plan.random.uniform(0.1, 1.0) * plan.lost_after_s
        plan.world.after(after_s, _restart, (plan, dead, keeper if fate == "forgotten and back" else ""))


def _restart(state: tuple[FaultPlan, BrokerHost, str]) -> None:
    plan, broker, keeper = state
    plan.restart(broker)
    core = broker.core
    taker = next((one for one in plan.running() if one.name == keeper and one.core is not None), None)
    if core is None or core.journal is None or taker is None or taker.core is None:
        return
    assert taker.core.journal is not None
    copied = taker.core.journal.contents.copies.owners.get(core.id)
    taken = copied.taken if copied is not None else {}
    held = core.journal.contents.custody.held
    rest = sum(one.items for source in held for one in held[source] if one.last > taken.get(source, 0))
    plan.world.after(2 * plan.lost_after_s, _compare, (plan, broker, core, taker.core, taker, rest))


def _compare(state: tuple[FaultPlan, BrokerHost, Core, Core, BrokerHost, int]) -> None:
    """What was taken over from it, it has not published."""
    plan, broker, core, former, taker, rest = state
    if broker.core is not core or taker.core is not former or _find(core, Copying).regaining.went_on:
        return
    stand_ins = _find(core, StandIns)
    sent = stand_ins.replayed + sum(one.replayed for one in stand_ins.working.values())
    plan.counts["forgotten, and has asked"] += 1
    if sent > rest:
        plan.watcher.oracle.violation(
            f"{broker.name} has sent {sent - rest} that {taker.name} had taken over"
        )
