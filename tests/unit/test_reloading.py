"""Which keys of a changed configuration a running broker takes, and that its behaviours hear of them."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from daemon.settings import Settings
from daemon.settings.keys import table
from daemon.settings.reloading import taken
from daemon.settings.sections import Clients, Log, Overlay, Softlinks, Tree
from overlay.core import Core
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.chooser import Chooser


def test_keys_marked_reload_are_taken_and_the_others_wait() -> None:
    fresh = Settings(log=Log(level="debug"), clients=Clients(queue=7), overlay=Overlay(delta=3))
    change = taken(Settings(), fresh)
    assert (change.now, change.restart) == (["clients.queue", "log.level"], ["overlay.delta"])
    assert change.settings == Settings(log=Log(level="debug"), clients=Clients(queue=7))
    assert taken(change.settings, fresh).restart == ["overlay.delta"]


def test_a_key_that_goes_only_with_one_that_waits_waits_too() -> None:
    fresh = Settings(overlay=Overlay(ordered=False), softlinks=Softlinks(strategy="S1", fanout=3))
    change = taken(Settings(), fresh)
    assert (change.now, change.restart) == (["softlinks.fanout"], ["overlay.ordered", "softlinks.strategy"])


def test_nothing_that_brokers_tell_each_other_is_reloaded() -> None:
    keys = [key for section in table().values() for key in section.values()]
    assert not [key.path for key in keys if key.reload and (key.cluster or key.path == "links.window")]
    assert {key.section for key in keys if key.reload} >= {"tree", "softlinks", "relocation", "clients"}


def broker(settings: CoreSettings) -> Core:
    core = tree_broker("b", 1, settings, Random(1))
    core.start(0.0)
    return core


def test_a_strategy_begins_and_ends() -> None:
    before = CoreSettings(overlay=OverlaySettings(delta=4))
    core = broker(before)
    chooser = next(each for each in core.behaviours if isinstance(each, Chooser))
    core.reconfigure(replace(before, softlinks=replace(before.softlinks, strategy="SD", fanout=2)), 1.0)
    assert (chooser.strategy, chooser.settings.fanout) == ("SD", 2)
    chooser.set_strategy("SH", 2.0)
    core.reconfigure(replace(core.settings, softlinks=replace(core.settings.softlinks, fanout=3)), 3.0)
    assert (chooser.strategy, chooser.settings.fanout) == ("SH", 3), "pubctl's word stays"
    core.reconfigure(before, 4.0)
    assert chooser.strategy == "S0"


def test_a_new_neighbour_is_dialled_at_once() -> None:
    core = broker(CoreSettings())
    core.flush(0.0).clear()
    told = taken(Settings(), Settings(tree=Tree(neighbours=("tcp://h:1",)))).settings.core()
    core.reconfigure(told, 1.0)
    assert [wanted.addresses for wanted in core.flush(1.0).opens] == [("tcp://h:1",)]
