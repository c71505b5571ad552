"""Real daemons: a broker takes another parent while publications pass, and nobody notices."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import grapevine
from tests.system.overlay import Daemon, Overlay
from tests.system.test_relocation import ask
from tools.pubctl.failure import Failure

DELTA = {"delta": 4}


def start_tree(overlay: Overlay) -> dict[str, Daemon]:
    """b1 with b2 and b3, b4 below b2; b1 coordinates."""
    roles = {"roles": ["broker", "coordinator"]}
    daemons = {"b1": overlay.add("b1", overlay=DELTA, broker=roles).start().ready()}
    for name, parent in (("b2", "b1"), ("b3", "b1"), ("b4", "b2")):
        daemons[name] = overlay.add(name, parent=parent, overlay=DELTA).start().ready()
    return daemons


def parent_of(daemon: Daemon, name: str) -> str:
    rows = ask(daemon, "broker.ls")["brokers"]
    return next(str(row.get("parent")) for row in rows if row["name"] == name)


def test_a_broker_moves_while_publications_pass_both_ways(overlay: Overlay) -> None:
    daemons = start_tree(overlay)
    keys = daemons["b1"].keys
    going = True

    def publish(client: Any, sent: list[int]) -> None:
        while going:
            sent.extend(client.publish({"kind": client.name}) for _ in range(20))
            time.sleep(0.005)

    with (
        grapevine.connect(daemons["b4"].address, name="low", keys=keys) as low,
        grapevine.connect(daemons["b3"].address, name="high", keys=keys) as high,
    ):
        subscriptions = {"low": low.subscribe("kind = 'high'"), "high": high.subscribe("kind = 'low'")}
        sent: dict[str, list[int]] = {"low": [], "high": []}
        threads = []
        for client in (low, high):
            client.advertise(f"kind = '{client.name}'")
            threads.append(Thread(target=publish, args=(client, sent[client.name])))
            threads[-1].start()
        time.sleep(0.5)
        answer = ask(daemons["b3"], "broker.move", broker="b4", to="b3")
        assert answer["outcome"] == "moved", answer
        time.sleep(0.5)
        going = False
        for thread in threads:
            thread.join()
        low.flush(30)
        high.flush(30)
        assert _numbers(subscriptions["low"], len(sent["high"])) == sent["high"]
        assert _numbers(subscriptions["high"], len(sent["low"])) == sent["low"]
        assert parent_of(daemons["b1"], "b4") == "b3"


def _numbers(subscription: Any, count: int) -> list[int]:
    """The next `count` sequence numbers, and whatever comes within a moment after them."""
    got: list[int] = []
    deadline = time.monotonic() + 20
    while len(got) < count and time.monotonic() < deadline:
        got += [message.sequence for message in subscription.next_batch(10_000, 0.1)]
    return got + [message.sequence for message in subscription.next_batch(10_000, 0.2)]


def test_a_moved_broker_goes_to_its_new_parent_after_a_restart(overlay: Overlay) -> None:
    daemons = start_tree(overlay)
    answer = ask(daemons["b1"], "broker.move", broker="b4", to="b3")
    assert answer["outcome"] == "moved", answer
    daemons["b4"].kill()
    daemons["b4"].start().ready()
    assert parent_of(daemons["b1"], "b4") == "b3"


def test_what_cannot_move_is_told_why(overlay: Overlay) -> None:
    daemons = start_tree(overlay)
    for broker, to, why in (
        ("b1", "b4", "no parent"),
        ("b2", "b4", "neighbour already"),
        ("b4", "b2", "neighbour already"),
        ("b4", "b9", "delta"),
    ):
        assert why in _refused(daemons["b1"], broker, to)


def _refused(daemon: Daemon, broker: str, to: str) -> str:
    try:
        return str(ask(daemon, "broker.move", broker=broker, to=to, dry_run=True))
    except Failure as failure:
        return str(failure)
