"""Real daemons: publishers are relocated while they publish, and nobody notices."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread
from typing import Any

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually
from tests.system.test_pubctl import Pubctl
from tools.pubctl.channel import Channel

BROKERS = 15
PUBLISHERS = 10
PUBLICATIONS = 4_000  # of each publisher


def ask(daemon: Daemon, verb: str, **arguments: Any) -> dict[str, Any]:
    channel = Channel(f"ipc://{daemon.control}", 10.0, daemon.keys)
    try:
        reply = channel.ask(verb, **arguments)
        return {"outcome_": reply.outcome, **reply.body}
    finally:
        channel.close()


def start_tree(overlay: Overlay, brokers: int) -> list[Daemon]:
    daemons = [overlay.add("b1").start()]
    daemons += [
        overlay.add(f"b{number}", parent=f"b{number // 2}").start() for number in range(2, brokers + 1)
    ]
    for daemon in daemons:
        daemon.ready(60.0)
    return daemons


def home_of(daemons: list[Daemon], publisher: str) -> str:
    rows = ask(daemons[0], "relocate.show")["publishers"]
    return next((row["at"] for row in rows if row["publisher"] == publisher), "")


def test_one_publisher_moves_and_its_subscriptions_stay(overlay: Overlay) -> None:
    daemons = start_tree(overlay, 3)
    keys = daemons[0].keys
    with (
        grapevine.connect(daemons[1].address, name="pub", keys=keys) as publisher,
        grapevine.connect(daemons[2].address, name="sub", keys=keys) as subscriber,
    ):
        own = publisher.subscribe("kind = 'echo'")
        got = subscriber.subscribe("kind = 'tick'")
        publisher.advertise("kind = 'tick'")
        publisher.publish({"kind": "tick", "n": 0})
        publisher.flush(30)
        answer = ask(daemons[0], "relocate.apply", publisher="pub", broker="b3")
        assert (answer["outcome"], answer["hops"]) == ("offered", 2)
        eventually(lambda: home_of(daemons, "pub") == "b3")
        publisher.publish({"kind": "tick", "n": 1})
        publisher.flush(30)
        assert [m.attributes["n"] for m in (got.next(5), got.next(5)) if m] == [0, 1]
        subscriber.advertise("kind = 'echo'")
        subscriber.publish({"kind": "echo"})
        assert own.next(5) is not None


def test_an_operator_moves_a_publisher(overlay: Overlay) -> None:
    """`pubctl relocate apply` says what it is going to do, and comes back when it is done."""
    daemons = start_tree(overlay, 3)
    pubctl = Pubctl(daemons[0].keys)
    with grapevine.connect(daemons[1].address, name="pub", keys=daemons[0].keys) as publisher:
        publisher.advertise("kind = 'tick'")
        words = ("relocate", "apply", "pub", "b3", "-b", daemons[0].address, "-t", "60s")
        (planned,) = pubctl.json(*words, "--dry-run")["rows"]
        assert (planned["from"], planned["hops"], planned["outcome"]) == ("b2", 2, "nothing done")
        assert home_of(daemons, "pub") == "b2"
        (done,) = pubctl.json(*words, "--yes")["rows"]
        assert done["outcome"] == "moved" and home_of(daemons, "pub") == "b3"
        (again,) = pubctl.json(*words, "--yes")["rows"]
        assert (again["hops"], again["outcome"]) == (0, "nothing done")
    eventually(lambda: not home_of(daemons, "pub"))
    pubctl.json(*words, "--yes", code=6)  # no such publisher any more


def test_ten_publishers_at_full_speed_all_relocated(overlay: Overlay) -> None:
    """Settled exactly once and in order; the pause grows with the path."""
    daemons = start_tree(overlay, BROKERS)
    keys = daemons[0].keys
    received: dict[str, list[tuple[str, int]]] = {}
    stop = False

    def read(sub: Any, into: list[tuple[str, int]]) -> None:
        while not stop:
            into.extend((m.publisher, m.sequence) for m in sub.next_batch(1_000, 0.2))

    clients = [grapevine.connect(daemons[7 + n].address, name=f"sub{n}", keys=keys) for n in range(4)]
    readers = []
    for client in clients:
        sub = client.subscribe("class = 'STOCK'")
        readers.append(Thread(target=read, args=(sub, received.setdefault(client.name, []))))
        readers[-1].start()
    publishers = [grapevine.connect(daemons[n].address, name=f"pub{n}", keys=keys) for n in range(PUBLISHERS)]

    def publish(client: Any) -> None:
        client.advertise(f"class = 'STOCK' and symbol = '{client.name}'")
        for n in range(PUBLICATIONS):
            client.publish({"class": "STOCK", "symbol": client.name, "n": n}, bytes(100))

    writers = [Thread(target=publish, args=(client,)) for client in publishers]
    for writer in writers:
        writer.start()
    moved: dict[str, tuple[str, int]] = {}
    for number, client in enumerate(publishers):
        target = f"b{BROKERS - number}"
        moved[client.name] = (target, move(daemons, client.name, target))
    for writer in writers:
        writer.join()
    for client in publishers:
        client.flush(60)
    for name, (target, _) in moved.items():
        eventually(lambda name=name, target=target: home_of(daemons, name) == target, 20.0)
    due = PUBLISHERS * PUBLICATIONS
    eventually(lambda: all(len(got) >= due for got in received.values()), 60.0, 0.2)
    stop = True
    for reader in readers:
        reader.join()
    for got in received.values():
        assert len(got) == due
        for client in publishers:
            sequences = [sequence for name, sequence in got if name == client.name]
            assert sequences == list(range(1, PUBLICATIONS + 1))
    report(overlay.directory, publishers, moved)
    for client in (*publishers, *clients):
        client.close()


def move(daemons: list[Daemon], publisher: str, target: str) -> int:
    """Ask until it is offered: an advertisement may still be on its way. The hops."""
    deadline = time.monotonic() + 60
    while True:
        try:
            answer = ask(daemons[0], "relocate.apply", publisher=publisher, broker=target)
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            continue
        if answer["outcome"] == "offered" or not answer["hops"]:
            return int(answer["hops"])


def report(directory: Path, publishers: list[Any], moved: dict[str, tuple[str, int]]) -> None:
    """The pauses, beside the lengths of the paths."""
    pauses = [(moved[c.name][1], c._engine.session.moving.pause_s) for c in publishers]
    lines = [f"{hops} hops: {pause_s * 1000:.1f} ms" for hops, pause_s in sorted(pauses)]
    (directory / "pauses.txt").write_text("\n".join(lines) + "\n")
    assert all(pause_s < 60.0 for _, pause_s in pauses), "a guard; bench.pauses has the figure"


def test_grape_moves_a_publisher_by_itself_and_the_log_says_so(tmp_path: Path) -> None:
    with Overlay(tmp_path, delivery_log={"mode": "all"}) as overlay:
        daemons = start_tree(overlay, 3)
        keys = daemons[0].keys
        settings = {"algorithm": "grape", "threshold": 40, "moves_per_minute": 600}
        answer = ask(daemons[0], "relocate.set", **settings)
        assert sorted(answer["brokers"]) == ["b1", "b2", "b3"]
        with (
            grapevine.connect(daemons[1].address, name="pub", keys=keys) as publisher,
            grapevine.connect(daemons[2].address, name="sub", keys=keys) as subscriber,
        ):
            got = subscriber.subscribe("kind = 'tick'")
            publisher.advertise("kind = 'tick'")
            for n in range(100):
                publisher.publish({"kind": "tick", "n": n})
                time.sleep(0.002)
            eventually(lambda: home_of(daemons, "pub") == "b3", 20.0)
            publisher.publish({"kind": "tick", "n": 100})
            publisher.flush(30)
            assert [got.next(5).attributes["n"] for _ in range(101)] == list(range(101))

        def logged() -> bool:
            logs = (daemons[1].directory / "state" / "deliveries").iterdir()
            return any('"event":"relocate"' in path.read_text() for path in logs)

        eventually(logged, 10.0)
