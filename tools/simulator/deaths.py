"""Brokers that die beside each other at once: some come back late, some never (`faults.deaths`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.simulator.broker import BrokerHost

if TYPE_CHECKING:
    from tools.simulator.faults import FaultPlan

FOREVER = 0.4  # share of the times


def die(plan: FaultPlan) -> None:
    """One to three of them; most of the others must be left. Not while somebody has not joined yet: who knows
    only the addresses of the dead cannot be helped."""
    running = [broker for broker in plan.running() if broker not in plan.given_up]
    if any(broker.core is None or not broker.core.ready for broker in running):
        plan.world.after(1.0, plan.die)
        return
    dying = _beside_each_other(plan, running)
    forever = plan.random.random() < FOREVER
    for broker in dying:
        if 2 * len(plan.running()) > len(plan.brokers) + 1:
            plan.counts["death"] += 1
            plan.watcher.fault_at(list(broker.ends.values()), broker.last_kind, crash=True)
            broker.crash()
            plan.watcher.crashed(broker)
            if forever and not _last_address(plan, broker):
                plan.given_up.add(broker)
            else:
                down_s = plan.random.uniform(0.2, 2.0) * plan.lost_after_s
                plan.world.after(down_s, plan.restart, broker)


def _beside_each_other(plan: FaultPlan, running: list[BrokerHost]) -> list[BrokerHost]:
    dying = [plan.random.choice(running)] if running else []
    for _ in range(plan.random.randrange(3)):
        beside = {peer.name for one in dying if one.core is not None for peer in one.core.peers.values()}
        near = [broker for broker in running if broker.name in beside and broker not in dying]
        dying += [plan.random.choice(near)] if near else []
    return dying


def _last_address(plan: FaultPlan, broker: BrokerHost) -> bool:
    """Whether some client knows nobody else who stays: it may never have been attached."""
    gone = {broker.address, *(other.address for other in plan.given_up)}
    return any(gone.issuperset(app.host.brokers) for app in plan.apps)
