"""A running broker takes other links, limits and strategies; what it cannot take it goes on telling."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import grapevine
from tests.system.frames import Frames
from tests.system.overlay import Daemon, Overlay, eventually


def reloaded(daemon: Daemon, **sections: dict[str, Any]) -> list[str]:
    """Change its file, have it read it, and return the keys that need a restart."""
    merged = {section: dict(values) for section, values in daemon.sections.items()}
    for section, values in sections.items():
        merged.setdefault(section, {}).update(values)
    daemon.configure(merged)
    answer, body = asked(daemon, "reload")
    assert answer.outcome == "ok", answer.text
    found: list[str] = body["restart"]
    return found


def asked(daemon: Daemon, verb: str, **arguments: Any) -> tuple[Any, Any]:
    with Frames(f"ipc://{daemon.control}") as admin:
        return admin.command(verb, **arguments)


def parent(daemon: Daemon) -> Any:
    rows = asked(daemon, "broker.ls")[1]["brokers"]
    return next(row["parent"] for row in rows if row["name"] == daemon.name)


def passes(publisher: grapevine.Client, sub: grapevine.Subscription) -> bool:
    """Whether what is published now arrives."""
    publisher.publish({"n": 1})
    publisher.flush(30)
    return sub.next(timeout=0.5) is not None


def test_a_broker_goes_to_another_parent_and_the_old_one_waits_for_nobody(overlay: Overlay) -> None:
    """Two trees: b1 - b3 and b2. b3 goes over to b2, with the client that it has."""
    b1, b2 = overlay.start("b1"), overlay.start("b2")
    b3 = overlay.start("b3", parent="b1")
    with (
        grapevine.connect(b3.address, name="s", keys=b3.keys) as subscriber,
        grapevine.connect(b1.address, name="p1", keys=b1.keys) as first,
        grapevine.connect(b2.address, name="p2", keys=b2.keys) as second,
    ):
        sub = subscriber.subscribe("n = 1")
        assert passes(first, sub)
        assert not passes(second, sub)
        assert reloaded(b3, tree={"neighbours": [b2.address]}) == []
        eventually(lambda: parent(b3) == "b2")
        eventually(lambda: "neighbour b3 is given up" in b1.log(), 3)
        eventually(lambda: passes(second, sub))
        assert not passes(first, sub), "and is settled at once: nobody waits for b3 there"
    assert all(daemon.stop() == 0 for daemon in (b3, b2, b1))


def test_a_root_gets_a_parent_by_a_signal_and_loses_it_again(overlay: Overlay) -> None:
    b1, b2 = overlay.start("b1"), overlay.start("b2")
    b2.configure({**b2.sections, "tree": {"neighbours": [b1.address]}})
    b2.signal(signal.SIGHUP)
    eventually(lambda: parent(b2) == "b1")
    assert reloaded(b2, tree={"neighbours": []}) == []
    eventually(lambda: parent(b2) is None)
    eventually(lambda: "neighbour b2 is given up" in b1.log(), 3)


def test_a_neighbour_that_does_not_fit_is_no_reason_to_end(overlay: Overlay) -> None:
    other = overlay.start("other", overlay={"delta": 2})
    b1 = overlay.start("b1")
    assert reloaded(b1, tree={"neighbours": [other.address]}) == []
    eventually(lambda: "it must agree in the whole overlay" in b1.log())
    with grapevine.connect(b1.address, name="c", keys=b1.keys) as client:
        assert passes(client, client.subscribe("n = 1"))


def test_limits_hold_for_those_who_are_there(overlay: Overlay) -> None:
    daemon = overlay.start("b1", clients={"subscriptions": 2})
    with grapevine.connect(daemon.address, name="c", keys=daemon.keys) as client:
        client.subscribe("n = 1")
        client.subscribe("n = 2")
        with pytest.raises(grapevine.Error):
            client.subscribe("n = 3")
        assert reloaded(daemon, clients={"subscriptions": 3}) == []
        client.subscribe("n = 3")
        with pytest.raises(grapevine.Error):
            client.subscribe("n = 4")


def test_an_algorithm_is_taken_and_what_pubctl_said_stays_until_the_file_changes(overlay: Overlay) -> None:
    daemon = overlay.start("b1")

    def in_force() -> Any:
        return asked(daemon, "relocate.show")[1]["algorithms"]["b1"]

    assert reloaded(daemon, relocation={"algorithm": "grape"}) == []
    assert in_force() == "grape"
    asked(daemon, "relocate.set", algorithm="pop")
    assert reloaded(daemon, log={"level": "debug"}) == []
    assert in_force() == "pop"
    assert reloaded(daemon, relocation={"algorithm": "off"}) == []
    assert in_force() == "off"


def test_what_needs_a_restart_is_told_until_there_is_one(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    changed = {"links": {"window": 7}, "overlay": {"ordered": False}, "softlinks": {"strategy": "S1"}}
    waiting = ["overlay.ordered", "softlinks.strategy", "links.window"]
    assert reloaded(daemon, **changed) == waiting, "S1 goes only with overlay.ordered = false"
    assert reloaded(daemon) == waiting
    values = {row["key"]: row["value"] for row in asked(daemon, "config")[1]["settings"]}
    assert (values["links.window"], values["softlinks.strategy"]) == (65_536, "S0")


def test_a_delivery_log_begins_and_ends(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    place = daemon.directory / "state" / "deliveries"
    with grapevine.connect(daemon.address, name="c", keys=daemon.keys) as client:
        sub = client.subscribe("n = 1")
        assert passes(client, sub)
        assert not place.exists()
        assert reloaded(daemon, delivery_log={"mode": "all"}) == []
        assert passes(client, sub)
        eventually(lambda: any('"deliver"' in path.read_text() for path in place.glob("*")))
        assert reloaded(daemon, delivery_log={"mode": "off"}) == []
        assert passes(client, sub)
