"""The publisher and the subscribers: when they are confirmed, and how the publisher goes on elsewhere."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.model.ownership.state import ADVERTISEMENT, LOCAL, SUBSCRIPTION, Word
from tests.model.ownership.telling import confirmed, settle_down

if TYPE_CHECKING:
    from tests.model.ownership.world import World


def look(world: World, one: int) -> None:
    """Broker `one` has changed: who waits for it may go on."""
    broker, publisher = world.brokers[one], world.publisher
    if publisher.home == one and not publisher.confirmed and _advertised(world, one, publisher.version):
        publisher.confirmed = True
        adopt(world, one)
    if publisher.target == one and broker.ready and not publisher.target_confirmed:
        if publisher.target_version in broker.words and (
            not world.on("switch-waits-confirm") or _advertised(world, one, publisher.target_version)
        ):
            publisher.target_confirmed = True
    switch(world)
    subscriber = world.subscribers.get(one)
    if subscriber is not None and not subscriber.confirmed and broker.subscriptions.get(one) == LOCAL:
        if confirmed(world, one, (SUBSCRIPTION, one), LOCAL):
            subscriber.confirmed = True
            subscriber.behind |= _not_connected(world, one)


def _advertised(world: World, one: int, version: int) -> bool:
    broker = world.brokers[one]
    ready = broker.ready and version in broker.words
    return ready and confirmed(world, one, (ADVERTISEMENT, version), LOCAL)


def _not_connected(world: World, one: int) -> set[tuple[int, int]]:
    """Links that the confirmation does not speak for: they count from their return on."""
    return {
        (side, here)
        for here, broker in enumerate(world.brokers)
        for side, link in broker.links.items()
        if not link.sync_ever and world.path(one, side)[-2:-1] == [here]
    }


def whole(world: World, home: int, subscriber: int) -> bool:
    """Whether no link on the way was given up since the subscription was confirmed."""
    path = world.path(home, subscriber)
    return not any(link in world.subscribers[subscriber].behind for link in pairwise(path))


def see_returns(world: World) -> None:
    """A subscription behind a lost link counts again when its whole way to the publisher is past SyncDone."""
    if world.publisher.home is None:
        return
    for one, subscriber in world.subscribers.items():
        if subscriber.behind:
            way = list(pairwise(world.path(world.publisher.home, one)))
            if all(_past_sync(world, here, there) for here, there in way):
                subscriber.behind.difference_update(way)


def _past_sync(world: World, one: int, other: int) -> bool:
    return world.brokers[one].links[other].sync_heard and world.brokers[other].links[one].sync_heard


def announce(world: World, one: int, version: int) -> None:
    world.brokers[one].words[version] = Word(one, LOCAL)
    settle_down(world, one)


def switch(world: World) -> None:
    """The client goes on at the target of its relocation."""
    publisher = world.publisher
    if publisher.target is None or not publisher.target_confirmed:
        return
    if publisher.home is not None and publisher.unsettled and world.on("switch-waits-settled"):
        return
    publisher.home, publisher.version = publisher.target, publisher.target_version
    publisher.confirmed = True
    publisher.target, publisher.target_confirmed = None, False
    adopt(world, publisher.home)


def adopt(world: World, one: int) -> None:
    """Everything unsettled is sent again here, oldest first; then the fence rises."""
    from tests.model.ownership import routing

    if world.on("adopt"):
        for sequence in list(world.publisher.unsettled):
            routing.accept(world, one, sequence, adopted=True)
    broker = world.brokers[one]
    broker.fence = max(broker.fence, world.publisher.version)
    drop_below_fence(world, one)
    settle_down(world, one)


def drop_below_fence(world: World, one: int) -> None:
    broker = world.brokers[one]
    if world.on("fence"):
        broker.words = {version: word for version, word in broker.words.items() if version >= broker.fence}
