"""Real daemons: subscribers are handed over while publications pass, and notice nothing."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import grapevine
from tests.system.overlay import Overlay, eventually
from tests.system.test_relocation import ask, start_tree

SUBSCRIBERS = 8


def publish(client: grapevine.Client, stop: Event, total: list[int]) -> None:
    while not stop.is_set() and total[0] < 200_000:
        total[0] += 1
        client.publish({"kind": "tick", "n": total[0]})
        if not total[0] % 50:
            stop.wait(0.01)
    client.flush(60)


def test_subscribers_move_under_traffic(overlay: Overlay) -> None:
    daemons = start_tree(overlay, 3)
    keys, addresses = daemons[0].keys, [daemon.address for daemon in daemons]
    got: list[list[int]] = [[] for _ in range(SUBSCRIBERS)]
    with grapevine.connect(addresses[2], name="pub", keys=keys) as publisher:
        clients = [grapevine.connect(addresses[1], name=f"s{n}", keys=keys) for n in range(SUBSCRIBERS)]
        subscriptions: list[Any] = [client.subscribe("kind = 'tick'") for client in clients]
        publisher.advertise("kind = 'tick'")
        stop, total = Event(), [0]
        thread = Thread(target=publish, args=(publisher, stop, total))
        thread.start()
        names = "\n".join(f"s{n}" for n in range(SUBSCRIBERS))
        order = ask(daemons[0], "client.move", names=names, to="b3")["order"]

        def ended() -> list[dict[str, Any]]:
            answer = ask(daemons[0], "client.moved", order=order)
            return [] if answer["under_way"] else answer["rows"]

        rows = eventually(ended, 60.0)
        assert {row["outcome"] for row in rows} == {"moved"}, rows
        at = {row["name"]: r["name"] for r in ask(daemons[0], "client.ls")["brokers"] for row in r["rows"]}
        assert {at[f"s{n}"] for n in range(SUBSCRIBERS)} == {"b3"}
        stop.set()
        thread.join(90.0)
        for mine, subscription in zip(got, subscriptions, strict=True):
            while not mine or mine[-1] < total[0]:
                message = subscription.next(timeout=30)
                assert message is not None, (len(mine), total[0])
                mine.append(message.attributes["n"])
            assert not subscription.gaps
        for client in clients:
            client.close()
    assert all(mine == list(range(mine[0], total[0] + 1)) for mine in got), "lost, doubled or late"
