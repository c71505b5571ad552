"""Who may take which parent: the question climbs to the root, which grants one at a time (E5, J1, J2).

Steps are single events, so that everything may break between them. A question whose answer is lost expires.
The asker's lease ends before the root's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.edges import changes
from tests.model.edges.state import Question, side
from tests.model.edges.telling import introduce

if TYPE_CHECKING:
    from tests.model.edges.world import World


def is_root(world: World, one: int) -> bool:
    """Without a parent, or without a link to it."""
    return world.parent_reached(one) is None


def ask(world: World, one: int, target: int) -> None:
    world.brokers[one].question = Question(target, target)


def climb(world: World, one: int) -> None:
    """The question of `one` goes one step up, or is decided where it is."""
    broker = world.brokers[one]
    question = broker.question
    assert question is not None
    parent = world.parent_reached(question.at)
    if parent is not None and world.on("climb"):
        broker.question = question._replace(at=parent)
    elif _may_grant(world, question.at, one):
        _grant(world, question.at, one)
    else:
        broker.question = None


def _may_grant(world: World, root: int, asker: int) -> bool:
    broker = world.brokers[root]
    if root == asker or not broker.up:
        return False
    if world.on("lock") and broker.grant is not None:
        return False
    question = world.brokers[asker].question
    assert question is not None
    returns = world.on("return-is-granted") and _waits_for(world, question.target, asker)
    if not returns and not all_done(world, root, asker):
        return False
    return broker.question is None or not world.on("yield") or root < asker


def all_done(world: World, one: int, asker: int) -> bool:
    """Whether no other edge of this part is being changed, as far as the two know."""
    if not world.on("one-at-a-time"):
        return True
    view = world.brokers[one].view
    brought = world.brokers[asker].view if world.on("question-brings-edges") else {}
    for child, edge in view.items():
        over = side(view, one, child) is None or (child in brought and brought[child].number > edge.number)
        if child != asker and not edge.done and not over:
            return False
    return True


def _waits_for(world: World, one: int, other: int) -> bool:
    link = world.brokers[one].links.get(other)
    return link is not None and not link.gone and not link.sync_ever


def _grant(world: World, root: int, asker: int) -> None:
    broker = world.brokers[root]
    if world.on("yield"):
        withdraw_question(world, root)
    asking = world.brokers[asker]
    broker.grant = (asker, asking.view[asker].number)
    assert asking.question is not None
    asking.question = asking.question._replace(at=root, granted=True)
    if world.on("grant-gives-up-edge") and broker.view[root].parent is not None and is_root(world, root):
        changes.change_own(world, root, None)


def withdraw_question(world: World, one: int) -> None:
    """With whatever was granted for it."""
    broker = world.brokers[one]
    if broker.question is not None and broker.question.granted:
        root = world.brokers[broker.question.at]
        if root.grant is not None and root.grant[0] == one:
            root.grant = None
    broker.question = None


def use(world: World, one: int) -> None:
    """The asker takes its new parent."""
    broker = world.brokers[one]
    assert broker.question is not None
    target = broker.question.target
    broker.question = None
    world.changes += 1
    world.connect(one, target)
    if world.on("edges-before-own"):
        for child, edge in sorted(world.brokers[target].view.items()):
            changes.learn(world, one, child, edge)
    changes.change_own(world, one, target)
    for here, there in ((one, target), (target, one)):
        if there in world.brokers[here].links and not world.brokers[here].links[there].gone:
            introduce(world, here, there)
