"""P3: the faults are over, everything that can happen happens, and then nothing is left undone."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.model.explorer import Event, Violation
from tests.model.ownership import events
from tests.model.ownership.state import LOCAL, Word

if TYPE_CHECKING:
    from tests.model.ownership.world import World

STEPS = 5000


def _peaceful(world: World, *names: str) -> list[Event]:
    limits = replace(world.limits, faults=-9, relocations=0, publications=world.publisher.sequence)
    found = [event for event in events.possible(world, limits) if event[0] != "lose"]
    return [event for event in found if event[0] in names] if names else found


def come_to_rest(world: World, random: Random | None, done: list[Event]) -> None:
    for _ in range(STEPS):
        found = _peaceful(world)
        if not found:
            return
        others = [event for event in found if event[0] != "attach"]  # a client attaches when it can choose
        found = others or found[:1]
        event = random.choice(found) if random is not None else found[0]
        done.append(event)
        events.do(world, event)
    raise Violation("P3 does not come to rest")


def check_at_rest(world: World, random: Random | None, done: list[Event]) -> None:
    come_to_rest(world, random, done)
    for one, broker in enumerate(world.brokers):
        _must(broker.ready, f"{one} is never ready")
        for side, link in broker.links.items():
            synced = link.state == "up" and link.sync_said and link.sync_heard
            _must(synced, f"no SyncDone between {one} and {side}")
    publisher = world.publisher
    _must(publisher.home is not None and publisher.confirmed, "the publisher is not confirmed")
    _must(publisher.target is None, "a relocation does not end")
    _must(not publisher.unsettled, f"never settled: {publisher.unsettled}")
    for one, subscriber in world.subscribers.items():
        _must(subscriber.confirmed, f"subscription {one} is not confirmed")
    for one in range(len(world.brokers)):
        _check_tables(world, one)
    _check_fresh(world)


def _check_tables(world: World, one: int) -> None:
    broker, publisher = world.brokers[one], world.publisher
    assert publisher.home is not None
    words = {publisher.version: Word(publisher.home, _side(world, one, publisher.home))}
    _must(broker.words == words, f"words of {one}: {broker.words} where {words} is right")
    _must(not broker.tombstones, f"tombstones of {one} stay: {broker.tombstones}")
    wanted = {
        key: _side(world, one, key) for key in world.subscribers if one in world.path(key, publisher.home)
    }
    _must(broker.subscriptions == wanted, f"{one} has {broker.subscriptions} where {wanted} is right")


def _side(world: World, one: int, home: int) -> int:
    return LOCAL if one == home else world.path(one, home)[1]


def _check_fresh(world: World) -> None:
    events.do(world, ("publish",))
    while found := _peaceful(world, "receive"):
        events.do(world, found[0])
    publisher = world.publisher
    _must(publisher.settled.get(publisher.sequence) is False, "a publication at rest is not settled whole")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(f"P3 {otherwise}")
