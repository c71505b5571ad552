"""`broker.coordinator`: the coordinator is asked at its address first, and found by the overlay otherwise."""

from __future__ import annotations

import pytest

from grapevine.wire.identity import identify
from overlay.administration.census import Census
from overlay.coordinate.contact import Contact
from overlay.coordinate.permissions import PERMIT, Permissions
from overlay.softlinks.move_commands import MoveCommands
from tests.sim.stories import Story
from tools.simulator.tables import behaviour
from tools.simulator.versions import LAST


def moved(story: Story, address: str) -> int:
    """b3 moves below b1, with that address of the coordinator b0: how often b1 was asked for permission."""
    asked = []
    _, between, _, mover = story.cores()
    census = behaviour(between, Census)
    permit = census.reporters[PERMIT]
    census.reporters[PERMIT] = lambda argument: asked.append(argument) or permit(argument)
    behaviour(mover, Contact).address = address
    commands = behaviour(mover, MoveCommands)
    host = story.brokers[3]
    assert not commands.move(identify("b1"), host.clock())
    host.wake()
    story.wait(lambda: commands.moves.moved == 1)
    story.wait(lambda: not behaviour(story.cores()[0], Permissions).granted)
    story.run_for(1.0)
    assert not any(behaviour(core, Contact).sessions.sessions for core in story.cores())
    return len(asked)


def test_at_its_address_nobody_else_is_asked() -> None:
    assert moved(Story(4, delta=4).begin(), "sim://b0") == 0


@pytest.mark.parametrize("address", ["", "sim://b2", "sim://b3", "sim://nobody"])
def test_where_there_is_no_coordinator_the_overlay_is_asked(address: str) -> None:
    assert moved(Story(4, delta=4).begin(), address) == 1


def test_a_coordinator_of_the_last_version_is_not_joined_by_mistake() -> None:
    story = Story(4, delta=4)
    story.protocols[0] = LAST
    story.begin()
    assert moved(story, "sim://b0") == 1
    assert sorted(story.cores()[0].peers) == [identify("b1")]
