"""A hop over a soft link has its reason in a trace: the subscriptions behind it, and whom it bypasses."""

from __future__ import annotations

import io

from rich.console import Console

from grapevine.wire import encode_attributes
from grapevine.wire.messages import TraceRequest
from overlay.data.path import Publications
from overlay.links.session import Remote
from overlay.softlinks.decision import Decision
from overlay.softlinks.shortcuts import Shortcuts
from overlay.tree.router import TreeRouter
from tests.paper.test_relocation_softlinks import World, settings
from tools.pubctl.channel import Reply
from tools.pubctl.tracing import draw, traced
from tools.simulator.tables import behaviour


def decision(world: World, broker: str, side: str = "") -> Decision:
    core = world.core(broker)
    attributes = encode_attributes({"class": "STOCK", "n": 5})
    came: Remote | None = None
    if side:
        remotes = (*behaviour(core, Shortcuts).softs.into.values(), *core.peers.values())
        came = next(remote for remote in remotes if remote.name == side)
    request = TraceRequest(core.id, 1, 1, attributes, 0, 1.0)
    return Decision(core, behaviour(core, Publications), behaviour(core, TreeRouter), came, request)


def test_a_soft_hop_says_which_subscription_and_past_whom() -> None:
    world = World(settings("off"))
    world.link("SD", (("B1", "B6"),))
    first = decision(world, "B1")
    soft = next(n for n in first.row["neighbours"] if "bypasses" in n)
    assert (soft["name"], soft["taken"], soft["bypasses"]) == ("B6", True, ["B5"])
    assert soft["count"] > 0
    assert "class = 'STOCK'" in soft["subscriptions"][0]["filter"]
    rows = [first.row, {**decision(world, "B6", "B1").row, "hops": 1}]
    result = traced(Reply("ok", {"path": rows, "attributes": {}, "asked": "B1"}, ""))
    screen = Console(width=200, no_color=True, file=io.StringIO())
    draw(screen, result.rows)
    assert isinstance(screen.file, io.StringIO)
    assert "B6  by a soft link past B5, for B6/" in screen.file.getvalue()
