"""A deployed topology whose host is cut off and comes back, and whose brokers are upgraded one by one, while
publications flow; judged by what was settled (see exactness.py).

Five brokers at hosts of their own networks. Nobody is excused for the cut but those whose session ended: a
link that is down for less than `links.lost_after_s` loses nothing. In the upgrade every broker is stopped and
started; a client that had to go elsewhere is owed nothing from then until it is whole again there and the
broker that was down is back, since what is said at one side of that broker is not heard at the other.

`python -m tests.system.outage [CUT_S]` plays it and prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import grapevine
from grapevine.client.session import State
from grapevine.filters import parse
from tests.system.exactness import Published, Publisher, Reader, Subscriber, judged
from tests.system.lab import NamespaceLab
from tests.system.overlay import eventually

BROKERS, HOSTS = 5, 3
CUT_HOST = 2  # of b2, between b1 and its children, and of b5
EVERY_S = 0.01  # between two publications of one publisher
PUBLISHERS = {"p1": 4, "p2": 3}  # and the brokers where they are
SUBSCRIBERS = {"s1": 1, "s2": 2, "s3": 3, "s4": 4, "s5": 5}
FILTERS = ("n >= 0", "class = 'STOCK'", "class = 'BOND' and n > 200")
STALL_S = 1.5  # a client that is silent for so long holds nobody up
HEARD_S = 0.3  # until all brokers know what a broker that is back has told them
CATCH_UP_S = 60.0
Gap = tuple[float, float]


class Scene:
    def __init__(self, lab: NamespaceLab) -> None:
        self.lab = lab
        self.over = threading.Event()
        self.cut: Gap = (0.0, 0.0)
        self.recovered = False  # from the cut: everybody has had what was published after it
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.threads: list[threading.Thread] = []
        self.wrong: list[str] = []
        for name, broker in SUBSCRIBERS.items():
            client = grapevine.connect(lab.address(broker), name, keys=lab.keys, timeout=30)
            subscriber = Subscriber(name, f"b{broker}", client)
            for text in FILTERS:
                handle = client.subscribe(text, timeout=30)
                subscriber.readers.append(Reader(subscriber, parse(text), handle, time.time()))
            self.subscribers.append(subscriber)
        for name, broker in PUBLISHERS.items():
            client = grapevine.connect(lab.address(broker), name, keys=lab.keys, timeout=30)
            client.advertise("n >= 0", timeout=30)
            self.publishers.append(Publisher(name, f"b{broker}", client, ""))

    def begin(self) -> None:
        works = [lambda p=p: self._publish(p) for p in self.publishers]  # type: ignore[misc]
        works += [lambda c=c: self._attend(c) for c in (*self.publishers, *self.subscribers)]  # type: ignore[misc]
        for work in works:
            self.threads.append(threading.Thread(target=work, daemon=True))
            self.threads[-1].start()

    def end(self) -> None:
        """All that was published is settled, or known to be lost."""
        self.over.set()
        for thread in self.threads:
            thread.join(60)
        for publisher in self.publishers:
            try:
                publisher.client.flush(timeout=60)
            except grapevine.Undelivered as error:
                lost = [n for first, last in error.ranges for n in range(first, last + 1)]
                self.wrong.append(f"{publisher.name}: undelivered {lost[:5]}, {len(lost)} in all")
            self._note_settled(publisher)

    def catch_up(self) -> None:
        """Everybody gets again what is published now. A client may take itself for attached long after its
        broker has given its link up: it says nothing while its packets wait for their next repetition."""
        last = {publisher.name: len(publisher.sent) for publisher in self.publishers}
        eventually(lambda: all(self._has_later(s, last) for s in self.subscribers), CATCH_UP_S)

    def _has_later(self, subscriber: Subscriber, last: dict[str, int]) -> bool:
        everything = subscriber.readers[0]
        everything.take()
        newest = dict(everything.got)  # the last of each publisher stays
        return subscriber.whole() and all(newest.get(name, 0) > number for name, number in last.items())

    def close(self) -> None:
        self.over.set()
        for each in (*self.publishers, *self.subscribers):
            each.client.close(0)

    # --- publishing -----------------------------------------------------------------------------------

    def _publish(self, publisher: Publisher) -> None:
        number = 0
        while not self.over.wait(EVERY_S):
            number += 1
            attributes = {"class": ("STOCK", "BOND")[number % 2], "n": number}
            at = time.time()
            publisher.sent[number] = Published(dict(attributes), at)
            sequence = publisher.client.publish(attributes, f"{publisher.name} {number}".encode())
            assert sequence == number
            self._note_settled(publisher)

    def _note_settled(self, publisher: Publisher) -> None:
        now = time.time()
        settled = publisher.client._session.outgoing.settled_up_to
        for number in range(getattr(publisher, "_seen", 0) + 1, settled + 1):
            publisher.sent[number].settled_at = now
        publisher._seen = settled  # type: ignore[attr-defined]

    # --- sessions that ended ----------------------------------------------------------------------------

    def _attend(self, who: Publisher | Subscriber) -> None:
        """A gap from the end of a session, or the silence before it, until the next is whole."""
        session = who.client._session
        epoch, last_whole = session._epoch, time.time()
        while not self.over.wait(0.01):
            now, attached = time.time(), session.state == State.ATTACHED
            whole = attached and (who.whole() if isinstance(who, Subscriber) else True)
            if whole and session._epoch != epoch:
                begin = last_whole - STALL_S
                if self.cut[0] and not self.recovered:
                    begin = min(begin, self.cut[0])
                who.gaps.append((begin, now))
                epoch = session._epoch
            if whole:
                last_whole = now

    def outages(self) -> list[Gap]:
        """When which broker was stopped and ready again, as their logs tell."""
        found = []
        for number in range(1, BROKERS + 1):
            place = self.lab.place(number)
            if (place / "log.before").exists():
                found.append((_said(place / "log.before", "stopping"), _said(place / "log", "ready after")))
        return sorted(found)

    def judge(self) -> dict[str, Any]:
        outages = self.outages()
        for who in (*self.publishers, *self.subscribers):
            who.gaps = [(begin, _heard(end, outages)) for begin, end in who.gaps]
        verdict = judged([], self.publishers, self.subscribers)
        began, ended = self.cut
        sent = [one for publisher in self.publishers for one in publisher.sent.values()]
        return {
            "published": len(sent),
            "while_cut": sum(began <= one.at <= ended for one in sent),
            "owed": verdict.owed,
            "came": verdict.came,
            "excused": verdict.excused,
            "wrong": [*self.wrong, *verdict.wrong][:20],
            "gaps": sum(len(who.gaps) for who in (*self.publishers, *self.subscribers)),
        }


def _said(log: Path, text: str) -> float:
    line = next(line for line in log.read_text().splitlines() if text in line)
    return datetime.fromisoformat(line[:23]).timestamp()


def _heard(end: float, outages: list[Gap]) -> float:
    """Not before a broker that was down then is back."""
    for stopped, ready in outages:
        if stopped <= end <= ready + HEARD_S:
            end = ready + HEARD_S
    return end


def play(
    directory: Path, cut_s: float, upgrade: bool = True, links: dict[str, float] | None = None
) -> dict[str, Any]:
    times: dict[str, float] = {}

    def timed(name: str, began: float) -> float:
        times[name] = round(time.monotonic() - began, 1)
        return time.monotonic()

    with NamespaceLab(directory, HOSTS) as lab:
        assert isinstance(lab, NamespaceLab)
        lab.write(BROKERS, links=links)
        clock = time.monotonic()
        assert lab.states("up", "--yes") == {"running"}
        clock = timed("up_s", clock)
        scene = Scene(lab)
        try:
            scene.begin()
            time.sleep(1)
            _cut_off(scene, lab, cut_s)
            if upgrade:
                _upgrade(scene, lab)
            time.sleep(1)
            scene.end()
            clock = timed("traffic_s", clock)
            result = scene.judge()
        finally:
            scene.close()
        clock = time.monotonic()
        assert lab.states("down", "--yes") == {"ended"}
        timed("down_s", clock)
        left = [*lab.processes(), *map(str, lab.keys.glob("b*.broker.toml"))]
        left += [lab.at] if Path(lab.at).exists() else []
    return {**result, "left": left, **times}


def _cut_off(scene: Scene, lab: NamespaceLab, cut_s: float) -> None:
    scene.cut = (time.time(), 0.0)
    lab.link(CUT_HOST, "down")
    time.sleep(cut_s)
    lab.link(CUT_HOST, "up")
    scene.cut = (scene.cut[0], time.time())
    scene.catch_up()
    scene.recovered = True


def _upgrade(scene: Scene, lab: NamespaceLab) -> None:
    before = lab.pids()
    command = lab.command("upgrade", "--rolling", "--yes", "-q")
    subprocess.run(command, env=lab.environment, stdout=subprocess.DEVNULL, check=True, timeout=200)
    assert all(before[path] != pid for path, pid in lab.pids().items()), "a broker was not restarted"
    scene.catch_up()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        outcome = play(Path(place), float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
    print(json.dumps(outcome))
    sys.exit(1 if outcome["wrong"] or outcome["left"] else 0)
