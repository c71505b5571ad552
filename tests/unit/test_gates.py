"""Every message has a gate of its own, and the gate is what decides: who is heard, and what is not said."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

import grapevine.wire
from daemon.policy import FULL, NEEDS, ROLES, Grant
from grapevine.wire.gates import ANYBODY, Carrier, Gate
from grapevine.wire.messages import (
    BROKERS_OLDEST,
    MESSAGES,
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Confirmed,
    Deliver,
    Done,
    Hello,
    Ping,
    SyncDone,
    TablesSent,
)
from grapevine.wire.relocation import Probe
from overlay.core import Core
from overlay.dispatch import Dispatch
from overlay.links.session import Kind, Link
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings
from tests.messages import sample
from tests.one_broker import Broker, attach, hello


def classes() -> Iterator[type[Any]]:
    """Every class with a kind, listed or not."""
    for module in pkgutil.iter_modules(grapevine.wire.__path__, "grapevine.wire."):
        loaded = importlib.import_module(module.name)
        for _, cls in inspect.getmembers(loaded, inspect.isclass):
            if cls.__module__ == module.name and issubclass(cls, msgspec.Struct) and hasattr(cls, "kind"):
                yield cls


def without_a_gate(found: Iterator[type[Any]]) -> list[str]:
    """One of its own: a class that inherits another's has said nothing."""
    return [cls.__name__ for cls in found if not isinstance(vars(cls).get("gate"), Gate)]


def test_every_message_has_a_gate_of_its_own() -> None:
    assert without_a_gate(classes()) == []
    assert set(classes()) == set(MESSAGES)
    for message in MESSAGES:
        since, carriers, roles = message.gate
        assert 1 <= since <= PROTOCOL and carriers and roles and roles <= ROLES, message


def test_a_class_without_one_is_found() -> None:
    class Heir(Hello):  # type: ignore[misc]
        pass

    assert without_a_gate(iter([Hello, Heir])) == ["Heir"]


def test_carriers_are_the_kinds_of_sessions() -> None:
    assert [Carrier(1 << kind).name for kind in Kind] == [kind.name for kind in Kind]
    assert ANYBODY == ROLES


def test_no_kind_is_allowed_because_nobody_thought_of_it() -> None:
    assert NEEDS.keys() == {message.kind for message in MESSAGES}
    assert Grant(frozenset()).barred == NEEDS.keys()
    assert not FULL.barred
    reader = Grant(frozenset(("subscriber",))).barred
    assert Deliver.kind in reader and Confirmed.kind in reader
    assert Attach.kind not in reader and Ping.kind not in reader


def test_a_message_is_heard_on_its_carriers_only() -> None:
    dispatch = Dispatch()
    for message in MESSAGES:
        dispatch.on(message, lambda session, message, now: None)
        for kind in Kind:
            heard = dispatch.handler(sample(message), kind) is not None
            assert heard is bool(message.gate.carriers & Carrier[kind.name]), (message, kind)


def test_what_does_not_open_a_conversation_is_no_greeting() -> None:
    with pytest.raises(AssertionError):
        Dispatch().on_greeting(SyncDone, lambda link, message, now: None)


# --- versions ---------------------------------------------------------------------------------------------


def core(protocol: int = PROTOCOL) -> Core:
    made = tree_broker("here", 1, CoreSettings(), Random(1), ("tcp://here:1",))
    made.protocol = protocol
    return made


@pytest.mark.parametrize(
    ("ours", "theirs", "spoken"), [(3, 2, 2), (2, 3, 2), (3, 3, 3), (3, 99, 3), (2, 2, 2)]
)
def test_both_sides_speak_the_lower_of_the_two(ours: int, theirs: int, spoken: int) -> None:
    broker = Broker()
    broker.core.protocol = ours
    greeting = msgspec.structs.replace(hello("there"), newest=theirs)
    broker.link(1, Kind.PEER, greeting, TablesSent(), SyncDone())
    [answer] = [message for message in broker.told[1] if isinstance(message, Hello)]
    assert (answer.oldest, answer.newest) == (BROKERS_OLDEST, ours)
    assert broker.core.links[1].protocol == spoken
    broker.link(2, Kind.CLIENT, msgspec.structs.replace(attach("who"), newest=theirs))
    assert broker.core.links[2].protocol == spoken


@pytest.mark.parametrize("newest", [0, BROKERS_OLDEST - 1])
def test_a_broker_that_is_too_old_is_told_both_ranges(newest: int) -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, msgspec.structs.replace(hello("there"), oldest=0, newest=newest))
    assert f"here speaks protocol {BROKERS_OLDEST}-{PROTOCOL}, there 0-{newest}" in str(broker.told[1])
    assert broker.closed == [1]


def test_nothing_newer_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made = core()
    links = [Link(number, "", Kind.PEER, 0, 0.0) for number in (1, 2, 3)]
    for link, protocol in zip(links, (PROTOCOL_OLDEST, 2, 3), strict=True):
        link.protocol = protocol
    for since, to in ((1, (1, 2, 3)), (2, (2, 3)), (3, (3,)), (4, ())):
        monkeypatch.setattr(Probe, "gate", Gate(since, Carrier.PEER, ANYBODY))
        made.out.clear()
        made.send(sample(Probe), *links)
        assert [numbers for _, numbers in made.out.sends] == ([to] if to else [])


def test_what_is_newer_than_we_speak_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.core.protocol = 2
    broker.link(1, Kind.PEER, hello("there"))
    monkeypatch.setattr(TablesSent, "gate", Gate(3, Carrier.PEER, ANYBODY))
    broker.say(1, TablesSent())
    assert broker.core.refused == {"newer": 1}


def test_a_session_says_what_its_peer_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, hello("there"))
    [peer] = broker.core.peers.values()
    assert peer.speaks(Probe)
    monkeypatch.setattr(Probe, "gate", Gate(3, Carrier.PEER, ANYBODY))
    assert not peer.speaks(Probe)
    broker.core.link_down(1, 1.0)
    assert not peer.speaks(Done), "nobody is there to hear it"
