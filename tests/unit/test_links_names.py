"""Two holders of one name at one broker: the first is asked whether it is there (DECISIONS 15)."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.wire import identify
from grapevine.wire.messages import Attach, Attached, Message, Ping, Pong, Refuse
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, LinkSettings

GREET_S = 1.0


class Broker:
    def __init__(self) -> None:
        settings = CoreSettings(links=LinkSettings(ping_s=1e6, greet_s=GREET_S))
        self.core = tree_broker("b1", 1, settings, Random(1), ("sim://b1",))
        self.now = 1000.0
        self.links = 0
        self.core.start(self.now)
        self.core.flush(self.now).clear()

    def attach(self, incarnation: int) -> tuple[int, list[tuple[Message, tuple[int, ...]]]]:
        """The link it came by, and what the broker then says."""
        self.links += 1
        self.core.link_up(self.links, "", Kind.CLIENT, self.now)
        name = "desk"
        self.core.receive(
            self.links, Attach(1, 1, name, identify(name), incarnation, incarnation, 100, 0), self.now
        )
        return self.links, self.said()

    def answer(self, link: int, said: list[tuple[Message, tuple[int, ...]]]) -> None:
        """The ping among what was said to this link."""
        (ping,) = (message for message, links in said if isinstance(message, Ping) and links == (link,))
        self.now += 0.05
        self.core.receive(link, Pong(ping.sent_at), self.now)

    def said(self) -> list[tuple[Message, tuple[int, ...]]]:
        out = self.core.flush(self.now)
        sends = list(out.sends)
        out.clear()
        return sends


def reason(said: list[tuple[Message, tuple[int, ...]]]) -> str:
    return next((m.reason for m, _ in said if isinstance(m, Refuse)), "")


@pytest.mark.parametrize("patience_s", [0.1, 3 * GREET_S, 20 * GREET_S])
def test_a_second_holder_is_told_so_however_slowly_it_asks(patience_s: float) -> None:
    broker = Broker()
    first, said = broker.attach(1)
    assert any(isinstance(message, Attached) for message, _ in said)
    _, said = broker.attach(2)
    assert reason(said) == "not-ready"
    broker.answer(first, said)
    for _ in range(3):  # each time: a client that hears it twice in a row gives up
        broker.now += patience_s
        assert reason(broker.attach(2)[1]) == "name"


def test_what_was_answered_to_another_long_ago_proves_nothing() -> None:
    broker = Broker()
    first, _ = broker.attach(1)
    broker.answer(first, broker.attach(2)[1])
    broker.now += 100 * GREET_S
    assert reason(broker.attach(3)[1]) == "not-ready"
    broker.now += GREET_S  # the first is silent now
    assert any(isinstance(message, Attached) for message, _ in broker.attach(3)[1])


def test_a_late_word_of_one_that_is_dead_is_no_answer() -> None:
    """It was on its way when its sender died. A broker that had restarted was told that it has the name of
    another, and ended (durable, small, 150)."""
    broker = Broker()
    first, _ = broker.attach(1)
    broker.attach(2)
    broker.now += 0.05
    broker.core.receive(first, Ping(broker.now), broker.now)
    broker.now += GREET_S / 4
    assert reason(broker.attach(2)[1]) == "not-ready"
    broker.now += GREET_S / 2
    assert any(isinstance(message, Attached) for message, _ in broker.attach(2)[1])
