"""A broker that chooses soft links: what it takes for its load, and ordered SH, which lets links rest."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.wire.mesh import Nearby
from grapevine.wire.messages import Publication
from overlay.core import Core
from overlay.links.session import Kind, Link, Remote
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings, SoftLinkSettings
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.excludes import Tap
from overlay.softlinks.soft import Soft, Stage
from overlay.tree.peer import Peer

CAPACITY = 1000


class Place:
    """A line of brokers 1 - 2 - 3 - 4 behind our neighbour 1, links to 2 and 3."""

    def __init__(self) -> None:
        softlinks = SoftLinkSettings(strategy="SH", fanout=8, maxlinks=16, uplink_msgs_s=CAPACITY)
        settings = CoreSettings(overlay=OverlaySettings(delta=4), softlinks=softlinks)
        self.core: Core = tree_broker("here", 1, settings, Random(1))
        self.chooser = next(b for b in self.core.behaviours if isinstance(b, Chooser))
        self.shortcuts = self.chooser.shortcuts
        self.peer = self.core.peers[1] = Peer(self.core, 1, "b1")
        branch = tuple(Nearby(n, f"b{n}", (f"tcp://b{n}:1",), n - 1 if n > 1 else 0) for n in range(1, 5))
        self.master = self.shortcuts.neighbourhoods.master
        self.master.hear(1, branch)
        self.soft = {broker: self._link(broker) for broker in (2, 3)}
        self.shortcuts.table.rebuild()
        self.opened: list[int] = []
        self.shortcuts.open = lambda broker, now: self.opened.append(broker)  # type: ignore[method-assign]
        self.chooser.set_strategy("SH", 0.0)

    def _link(self, broker: int) -> Soft:
        soft = self.shortcuts.softs.out[broker] = Soft(self.core, broker, f"b{broker}", True)
        soft.path, soft.stage, soft.ready = self.master.path(broker), Stage.ACTIVE, True
        soft.link = Link(broker, "", Kind.PEER, 0, 0.0)
        return soft

    def give(self, remote: Remote, count: int) -> None:
        """As if sent and settled."""
        remote.out.queue += [Publication(b"\x80", b"", n) for n in range(count)]
        remote.out.forget()


def test_a_closed_link_takes_nothing_from_the_load() -> None:
    place = Place()
    place.give(place.soft[3], 5000)
    assert place.chooser._uplink_use(1.0) == pytest.approx(5.0)
    place.give(place.peer, 900)
    del place.shortcuts.softs.out[3]
    place.shortcuts.table.rebuild()
    assert place.chooser._uplink_use(2.0) == pytest.approx(0.9)
    place.chooser.choose_links(4.0)
    assert place.chooser.loads.rate == pytest.approx(900 / 4), "that of the links that are left"


def test_a_link_at_rest_outlasts_rounds_and_nothing_new_is_opened() -> None:
    place = Place()
    place.give(place.soft[2], 100)
    place.give(place.soft[3], 500)
    place.chooser.choose_links(1.0)
    gain = place.chooser.gains[2]
    assert gain > 0
    place.chooser.use = 0.9
    place.chooser._adapt(1.0)
    assert place.shortcuts.rested == {2}, "the one with the least gain"
    for now in (2.0, 3.0):
        place.shortcuts.table.candidates = {4: Tap()}
        place.shortcuts.table.candidates[4].count = 1000
        place.give(place.soft[3], 500)
        place.chooser.choose_links(now)
        assert not place.soft[2].leaving and place.chooser.gains[2] == gain
        assert place.opened == [], "what the uplink has no room for"
    place.chooser.use = 0.7
    place.chooser._adapt(4.0)
    assert place.shortcuts.rested == {2}, "between the marks nothing changes"
    place.chooser.use = 0.5
    place.chooser._adapt(5.0)
    assert not place.shortcuts.rested
    place.shortcuts.table.candidates = {4: Tap()}
    place.shortcuts.table.candidates[4].count = 1000
    place.chooser.choose_links(6.0)
    assert place.opened == [4]
