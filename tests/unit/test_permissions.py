"""The coordinator permits one move at a time in any neighbourhood, and each permission is an epoch."""

from __future__ import annotations

from random import Random

from overlay.coordinate.permissions import Operation, Permissions
from overlay.core import Core
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings

Answer = tuple[Operation | None, str]


def broker(coordinator: bool) -> tuple[Core, Permissions]:
    core = tree_broker("b1", 7, CoreSettings(), Random(1), coordinator=coordinator)
    core.start(0.0)
    return core, next(b for b in core.behaviours if isinstance(b, Permissions))


def ask(core: Core, permissions: Permissions, brokers: tuple[int, ...], now: float) -> Answer:
    core.flush(now)
    answers: list[Answer] = []
    permissions.ask(brokers, lambda operation, refusal, later: answers.append((operation, refusal)), now)
    (answer,) = answers
    return answer


def test_neighbourhoods_that_overlap_wait() -> None:
    core, permissions = broker(coordinator=True)
    first, _ = ask(core, permissions, (1, 2, 3), 0.0)
    assert first == (core.id, 7, 1)
    refused, why = ask(core, permissions, (3, 4), 0.0)
    assert refused is None and "b1 moves near there" in why
    apart, _ = ask(core, permissions, (4, 5), 0.0)
    assert apart == (core.id, 7, 2)
    permissions.release(first, 0.0)
    again, _ = ask(core, permissions, (3,), 0.0)
    assert again == (core.id, 7, 3)


def test_a_mover_that_is_gone_holds_nobody_up_for_ever() -> None:
    core, permissions = broker(coordinator=True)
    assert ask(core, permissions, (1,), 0.0)[0] is not None
    assert ask(core, permissions, (1,), permissions.lifetime_s - 1)[0] is None
    assert ask(core, permissions, (1,), permissions.lifetime_s + 1)[0] is not None


def test_an_earlier_life_releases_nothing() -> None:
    core, permissions = broker(coordinator=True)
    assert ask(core, permissions, (1,), 0.0)[0] is not None
    permissions.release((core.id, 6, 1), 0.0)
    assert ask(core, permissions, (1,), 0.0)[0] is None


def test_without_a_coordinator_nobody_moves() -> None:
    operation, why = ask(*broker(coordinator=False), (1,), 0.0)
    assert operation is None and "no coordinator" in why
