"""Who has a copy of what a root knows, while its successors change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from grapevine.wire.chord import RingNode, RootCopied, RootCopy
from overlay.chord.holders import Holders

NODES = [RingNode(number, number, 1, f"b{number}", ()) for number in range(5)]


class Contacts:
    def __init__(self) -> None:
        self.told: list[tuple[str, RootCopy]] = []
        self.away: set[RingNode] = set()

    def linked(self, node: RingNode) -> bool:
        return node not in self.away

    def tell(self, node: RingNode, message: RootCopy) -> bool:
        if node in self.away:
            return False
        self.told.append((node.name, message))
        return True


def holders() -> tuple[Holders, Any, Contacts]:
    contacts = Contacts()
    settings = SimpleNamespace(copies=2)
    ring: Any = SimpleNamespace(
        contacts=contacts, settings=settings, me=NODES[0], successors=(NODES[1], NODES[2])
    )
    source: Any = SimpleNamespace(begin=4, topics={}, given=None)
    found = Holders(ring, source)
    found.choose(0.0)
    for node in NODES[1:3]:
        answer(found, node)
    contacts.told.clear()
    return found, ring, contacts


def answer(found: Holders, node: RingNode) -> None:
    session: Any = SimpleNamespace(id=node.broker)
    found.on_copied(session, RootCopied(found.nodes[node]), 0.0)


def dismissed(contacts: Contacts) -> list[str]:
    return [name for name, message in contacts.told if not message.number]


def test_a_holder_goes_when_who_comes_in_its_place_has_everything() -> None:
    """A root that died between had a copy less than it is promised."""
    found, ring, contacts = holders()
    ring.successors = (NODES[1], NODES[3])
    found.choose(0.0)
    assert not dismissed(contacts) and set(found.nodes) == set(NODES[1:4])
    found.tell((7,))
    assert [name for name, _ in contacts.told[-3:]] == ["b1", "b2", "b3"]
    answer(found, NODES[1])
    answer(found, NODES[3])
    assert dismissed(contacts) == ["b2"] and set(found.nodes) == {NODES[1], NODES[3]}


def test_one_that_cannot_be_told_any_more_goes_at_once() -> None:
    found, ring, contacts = holders()
    contacts.away.add(NODES[2])
    ring.successors = (NODES[1], NODES[3])
    found.choose(0.0)
    assert NODES[2] not in found.nodes


def test_a_word_counts_for_members_when_all_of_them_have_it() -> None:
    found, ring, _ = holders()
    ring.successors = (NODES[3], NODES[2])
    found.choose(0.0)
    said: list[float] = []
    found.tell((7,))
    found.when_copied(said.append, 0.0)
    answer(found, NODES[2])
    answer(found, NODES[3])
    assert said == [0.0]


def test_a_holder_that_leaves_goes_when_another_has_everything() -> None:
    found, ring, contacts = holders()
    ring.successors = (NODES[1], NODES[2], NODES[3])
    leaver: Any = SimpleNamespace(id=NODES[1].broker)
    found.on_copied(leaver, RootCopied(0), 0.0)
    assert not dismissed(contacts) and set(found.nodes) == set(NODES[1:4])
    answer(found, NODES[3])
    assert dismissed(contacts) == ["b1"] and set(found.nodes) == {NODES[2], NODES[3]}
    found.choose(0.0)
    assert set(found.nodes) == {NODES[2], NODES[3]}
