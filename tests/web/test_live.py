"""The page beside seven real brokers that are fed: every number is the brokers' own, and what happens is seen
on the page, in its timeline and by `pubctl events`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.system.overlay import ROOT, Overlay, eventually
from tests.web.browsing import Served, Tab, Tabs, pubctl

PARENTS = {"b1": "", "b2": "b1", "b3": "b1", "b4": "b2", "b5": "b2", "b6": "b3", "b7": "b3"}
STOCK = "class = 'STOCK'"


class Feed:
    """Publishes at a steady rate until it is stopped."""

    def __init__(self, broker: str, keys: Path, name: str, rate: float, attributes: dict[str, Any]) -> None:
        self.client = grapevine.connect(broker, name=name, keys=keys)
        self.client.advertise(f"class = '{attributes['class']}'")
        self.rate, self.attributes, self.on = rate, attributes, True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while self.on:
            try:
                self.client.publish(self.attributes, b"x" * 20)
            except grapevine.Error:
                return
            due += 1 / self.rate
            time.sleep(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self.on = False
        self.thread.join(5)
        self.client.close()


class Fed:
    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.keys = overlay["b1"].keys
        self.address = {name: daemon.address for name, daemon in overlay.daemons.items()}
        self.feeds = [
            Feed(self.address["b4"], self.keys, "quotes", 60, {"class": "STOCK", "volume": 6200}),
            Feed(self.address["b6"], self.keys, "news", 15, {"class": "NEWS"}),
        ]
        self.readers = []
        for broker, name, filter in (
            ("b7", "dashboard", STOCK),
            ("b5", "reader", "class = 'NEWS'"),
            ("b2", "both", "exists class"),
        ):
            client = grapevine.connect(self.address[broker], name=name, keys=self.keys)
            subscription = client.subscribe(filter)
            self.readers.append(client)
            threading.Thread(target=self._read, args=(subscription,), daemon=True).start()

    def _read(self, subscription: Any) -> None:
        try:
            for _ in subscription:
                pass
        except grapevine.Error:
            pass

    def ask(self, *words: str) -> Any:
        return pubctl(self.keys, self.address["b1"], *words)

    def close(self) -> None:
        for feed in self.feeds:
            feed.stop()
        for client in self.readers:
            client.close()


def started(directory: Path, **defaults: dict[str, Any]) -> Overlay:
    overlay = Overlay(
        directory,
        **({"links": {"ping_s": 0.5, "redial_s": 0.1, "greet_s": 1.0, "lost_after_s": 6.0}} | defaults),
    )
    for name, parent in PARENTS.items():
        roles = ["broker", "coordinator"] if name == "b1" else ["broker"]
        overlay.add(name, parent, broker={"roles": roles})
    for daemon in overlay.daemons.values():
        daemon.start()
    for daemon in overlay.daemons.values():
        daemon.ready()
    return overlay


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    soft = {"strategy": "SD", "interval_s": 2.0}
    directory = tmp_path_factory.mktemp("seven")
    with started(directory, overlay={"delta": 4}, softlinks=soft) as overlay:
        made = Fed(overlay)
        yield made
        made.close()


@pytest.fixture(scope="module")
def served(fed: Fed, tmp_path_factory: pytest.TempPathFactory, browser: object) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("page"), keys=fed.keys, broker=fed.address["b1"]) as running:
        yield running


LATE_S = 2.0  # two intervals
NOTE_WHEN = """() => { const take = grapevine.model.takeEvent.bind(grapevine.model); grapevine.lags = [];
  grapevine.model.takeEvent = (e) => {
    grapevine.lags.push([e.kind, Date.now() / 1000 - e.t]); return take(e); }; }"""


@pytest.fixture
def tab(served: Served, tabs: Tabs) -> Tab:
    return noting(tabs(served.url).ready())


def noting(tab: Tab) -> Tab:
    """From now on the page notes how long after it happened it hears of an event."""
    tab.page.evaluate(NOTE_WHEN)
    return tab


def in_time(tab: Tab, *kinds: str) -> None:
    """Each of these has happened meanwhile, and the page knew within two intervals."""
    lags: list[tuple[str, float]] = tab("grapevine.lags")
    for kind in kinds:
        found = [lag for each, lag in lags if each == kind]
        assert found and max(found) <= LATE_S, (kind, lags)


def averages(tab: Tab, since: float, column: int) -> dict[str, float]:
    """Of every broker's rate in the pulses since then, by their length: columns of model.js, KEPT_B."""
    script = (
        f"(() => {{ const past = grapevine.model.past.filter(p => p.t > {since}); const found = {{}};"
        "for (const b of grapevine.model.brokers.values()) {"
        " let sum = 0, seconds = 0; past.forEach((p, n) => {"
        f" const v = p.b[b.i * 7 + {column}], took = n ? p.t - past[n - 1].t : 0;"
        " if (!Number.isNaN(v)) { sum += v * took; seconds += took; } });"
        " found[b.name] = sum / Math.max(0.001, seconds); } return found; })()"
    )
    found: dict[str, float] = tab(script)
    return found


def test_every_number_is_the_brokers_own(fed: Fed, tab: Tab) -> None:
    """Rates from two looks of pubctl, eight seconds apart, against the mean of the page's pulses between."""
    eventually(
        lambda: any(link["kind"] == "soft" and link["sent"] for link in fed.ask("link", "ls")["rows"]), 60
    )
    time.sleep(4)  # the tree settles into its soft links
    first, t0 = fed.ask("status"), time.time()
    time.sleep(8)
    second, t1 = fed.ask("status"), time.time()
    shown_in, shown_out = averages(tab, t0, 1), averages(tab, t0, 2)
    before = {row["name"]: row for row in first["rows"]}
    rows = {row["name"]: row for row in second["rows"]}
    assert rows.keys() == PARENTS.keys()
    for name, row in rows.items():
        grown = {
            key: (row[key] - before[name][key]) / (t1 - t0)
            for key in ("accepted", "received", "forwarded", "delivered")
        }
        assert shown_in[name] == pytest.approx(grown["accepted"] + grown["received"], rel=0.2, abs=5), name
        assert shown_out[name] == pytest.approx(grown["forwarded"] + grown["delivered"], rel=0.2, abs=5), name
        assert (tab.state(name), tab.row(name)[11]) == (row["state"], row["clients"]), name
        parent = tab(f"grapevine.model.name(grapevine.model.byName.get('{name}').parent)")
        assert parent == (row["parent"] or "?"), name
    total = tab("grapevine.model.total")
    assert (
        total["clients"] == second["totals"]["clients"]
        and total["subscriptions"] == second["totals"]["subscriptions"]
    )
    links = {
        (r["broker"], r["neighbour"], r["kind"])
        for r in fed.ask("link", "ls")["rows"]
        if r["kind"] != "candidate"
    }
    known = tab(
        "[...grapevine.model.links.values()].map(l => [grapevine.model.name(l.a), "
        "grapevine.model.name(l.b), l.kind])"
    )
    pairs = {frozenset((a, b)) for a, b, kind in links if kind == "primary"}
    assert {frozenset((a, b)) for a, b, kind in known if kind == "primary"} == pairs
    tab.shot("seven")


def test_a_bypass_is_seen(fed: Fed, tab: Tab) -> None:
    """With its rate; told in the timeline and by pubctl."""
    tab.until(
        "[...grapevine.model.links.values()].some(l => l.kind === 'soft' && grapevine.model.rate(l.i) > 10)",
        60,
    )
    tab.until("document.querySelector('#timeline').innerText.includes('soft link')")
    kinds = {row["kind"] for row in fed.ask("events")["rows"]}
    assert "soft.promoted" in kinds
    assert tab("grapevine.model.total.bypassed") > 0


def test_a_trace_is_that_of_pubctl(fed: Fed, tab: Tab) -> None:
    said = fed.ask("trace", "--as-is", "class=STOCK", "volume=6200")
    tab.page.keyboard.press("g")
    tab.page.locator("#trace-attributes").fill("class=STOCK volume=6200")
    tab.page.locator("#trace-go").click()
    tab.until("document.querySelector('#trace-result').innerText.includes('brokers, ')")
    text = tab.text("#trace-result")
    assert f"{said['brokers']} brokers, {said['clients']} clients" in text
    for row in said["rows"]:
        assert row["broker"] in text
    lit = set(
        tab(
            "[...grapevine.view.lit.keys()].filter(k => String(k).startsWith('b'))"
            ".map(k => grapevine.model.name(Number(k.slice(1))))"
        )
    )
    assert lit == {row["broker"] for row in said["rows"]}
    tab.page.locator("#trace-filter").fill("class = 'STOCK' and volume > 10000")
    tab.until("document.querySelector('#filter-result').innerText.includes('does not match: volume > 10000')")
    tab.shot("trace")


def test_a_publisher_moves_and_is_seen(fed: Fed, tab: Tab) -> None:
    home = next(row["at"] for row in fed.ask("relocate", "show")["rows"] if row["publisher"] == "news")
    there = "b5" if home != "b5" else "b6"
    fed.ask("relocate", "apply", "news", there, "--yes")
    for kind in ("relocate.started", "relocate.settled"):
        tab.until(
            f"grapevine.model.events.some(e => e.kind === '{kind}' && e.fields.publisher === 'news')", 10
        )
    assert tab("grapevine.view.marks.length") > 0
    assert {"relocate.started", "relocate.settled"} <= {row["kind"] for row in fed.ask("events")["rows"]}
    tab.until(
        "grapevine.model.overlay.publishers.some(p => p.name === 'news' && "
        f"grapevine.model.name(p.at) === '{there}')",
        15,
    )
    tab.until("Number(document.querySelector('#t-saved').innerText) >= 1", 10)
    in_time(tab, "relocate.started", "relocate.settled")


def test_a_broker_that_is_given_another_parent_is_seen(fed: Fed, tab: Tab) -> None:
    """There and back, while publications flow."""

    def parent() -> str:
        return "grapevine.model.name(grapevine.model.byName.get('b7').parent)"

    for to in ("b2", "b3"):
        fed.ask("broker", "move", "b7", "--to", to, "--yes")
        tab.until(f"{parent()} === '{to}'", 30)
        tab.until(
            "grapevine.model.events.some(e => e.kind === 'move.done' && e.broker === 'b7' && "
            f"e.fields.to === '{to}')"
        )
        tab.until(f"document.querySelector('#timeline').innerText.includes('moved below {to}')")
    assert {"move.started", "move.done"} <= {row["kind"] for row in fed.ask("events")["rows"]}
    in_time(tab, "move.started", "move.done")


def test_a_slow_client_is_named_with_its_subscription(fed: Fed, tab: Tab) -> None:
    client = grapevine.connect(fed.address["b3"], name="sleeper", keys=fed.keys, receive_window=16)
    client.subscribe("class = 'NOTHING'")
    client.subscribe(STOCK)
    feed = Feed(fed.address["b3"], fed.keys, "burst", 400, {"class": "STOCK", "volume": 1})
    try:
        tab.until(
            "grapevine.model.events.some(e => e.kind === 'slow.began' && e.fields.client === 'sleeper')", 40
        )
        event = tab(
            "grapevine.model.events.find(e => e.kind === 'slow.began' && e.fields.client === 'sleeper')"
        )
        assert event["fields"]["filter"] == STOCK
        tab.until("document.querySelector('#health').innerText.includes('not keep up')")
        tab("grapevine.page.select({broker: grapevine.model.byName.get('b3').i})")
        tab.until("document.querySelector('#panel').innerText.includes('sleeper')")
        assert STOCK in tab.text("#panel") and "drop_oldest" in tab.text("#panel")
        in_time(tab, "slow.began")
        assert "slow.began" in {row["kind"] for row in fed.ask("events", "--at", "b3")["rows"]}
        tab.shot("slow-client")
    finally:
        feed.stop()
        client.close()


def test_a_stopped_broker_does_not_slow_the_others(fed: Fed, tab: Tab) -> None:
    stopped = fed.overlay["b6"]
    stopped.signal(signal.SIGSTOP)
    try:
        tab.until("grapevine.model.byName.get('b6').state === 'no answer'", 15)
        at = tab("grapevine.model.t")
        time.sleep(6)
        times = tab(f"grapevine.model.past.map(p => p.t).filter(t => t > {at})")
        assert len(times) >= 4, times  # about once a second, as before; a census that waits has one or two
        assert tab.text("#t-brokers") == "7"
    finally:
        stopped.signal(signal.SIGCONT)
    tab.until("grapevine.model.byName.get('b6').state === 'ready'", 30)


def test_a_dead_broker_is_red_in_time_and_stays_when_it_is_forgotten(fed: Fed, tab: Tab) -> None:
    fed.overlay["b7"].kill()
    killed = time.monotonic()
    tab.until("grapevine.model.byName.get('b7').state === 'no answer'", 15)
    assert time.monotonic() - killed < 2 * 1.0 + 2.0  # two intervals and the silence of a link
    tab.until("document.querySelector('#timeline').innerText.includes('b7')")
    tab.until("grapevine.model.events.some(e => e.kind === 'link.lost' && e.fields.peer === 'b7')", 30)
    tab.until("['gone', 'no answer'].includes(grapevine.model.byName.get('b7')?.state)", 10)
    in_time(tab, "link.lost")
    assert tab.text("#t-brokers") == "7"
    status = fed.ask("status")
    row = next(row for row in status["rows"] if row["name"] == "b7")
    assert row["state"].startswith(("gone since", "missing"))
    fed.overlay["b7"].start().ready()
    tab.until("grapevine.model.byName.get('b7').state === 'ready'", 30)
    assert tab("grapevine.model.events.some(e => e.kind === 'back' && e.broker === 'b7')")


def test_a_tree_that_heals_is_seen(tmp_path: Path, tabs: Tabs) -> None:
    """A broker in the middle dies for good: where those below it are now, and how they came there."""
    links = {"ping_s": 0.5, "redial_s": 0.1, "greet_s": 1.0, "lost_after_s": 20.0}
    with Overlay(tmp_path, links=links, healing={"after_s": 1.0}) as overlay:
        for name, parent in (("b1", ""), ("b2", "b1"), ("b3", "b2"), ("b4", "b2")):
            overlay.start(name, parent)
        first = overlay["b1"]
        with Served(tmp_path, keys=first.keys, broker=first.address) as served:
            tab = noting(tabs(served.url).ready())
            parent = "grapevine.model.name(grapevine.model.byName.get('%s')?.parent)"
            for below in ("b3", "b4"):
                tab.until(f"{parent % below} === 'b2'", 15)
            overlay["b2"].kill()
            for below in ("b3", "b4"):
                tab.until(f"{parent % below} === 'b1'", 20)
                tab.until(f"grapevine.model.events.some(e => e.kind === 'healed' && e.broker === '{below}')")
            tab.until("document.querySelector('#timeline').innerText.includes('gone round b2')")
            kinds = {row["kind"] for row in pubctl(first.keys, first.address, "events")["rows"]}
            assert {"parent.lost", "healed"} <= kinds
            in_time(tab, "parent.lost", "healed")
            tab.shot("healed")


def test_an_observers_key_changes_nothing_by_any_path(tmp_path: Path, tabs: Tabs) -> None:
    """Not even where the page was started with --actions."""
    from grapevine.client.keys import client_keys

    with Overlay(tmp_path) as overlay:
        daemon = overlay.add("b1")
        for name in ("watcher", "b1"):
            client_keys(daemon.keys, name)
        (daemon.keys / "policy.toml").write_text('[[key]]\nname = "watcher"\nroles = ["observer"]\n')
        daemon.start().ready()
        words = ("--key", "watcher", "--actions")
        with Served(tmp_path, *words, keys=daemon.keys, broker=daemon.address) as served:
            tabs.allowed = ("status of 403", "status of 404")
            tab = tabs(served.url).ready()
            assert tab.text("#may") == "actions on"
            tab("grapevine.page.select({broker: 0})")
            tab.page.get_by_role("button", name="Drain").click()
            tab.until("document.querySelector('#act').innerText.includes('Type b1')")
            tab.page.locator("#act input").fill("b1")
            tab.page.get_by_role("button", name="Do it").click()
            tab.until("document.querySelector('#act').innerText.includes('no role admin')")
            time.sleep(1.5)
            assert daemon.process is not None and daemon.process.poll() is None
            assert tab.state("b1") == "ready"


def test_top_in_a_terminal(fed: Fed, tmp_path: Path) -> None:
    """Driven as a person would; the terminal is as it was afterwards."""
    import shutil

    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    name = f"grapevine-{os.getpid()}"
    after = tmp_path / "after"
    command = f"{sys.executable} -m tools.pubctl.main -b {fed.address['b1']} top; stty -a > {after}; sleep 30"
    environment = {**os.environ, "GRAPEVINE_KEYS": str(fed.keys)}
    tmux = ["tmux", "-L", name]
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "150", "-y", "30", command], cwd=ROOT, env=environment, check=True
    )

    def screen() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def press(*keys: str) -> None:
        subprocess.run([*tmux, "send-keys", *keys], check=True)

    try:
        eventually(lambda: re.search(r"b7 +ready +b3", screen()), 40, 0.3)
        press("s", "s", "s")
        eventually(lambda: "by in/s" in screen(), 10, 0.2)
        press("b")
        press("Down", "Enter")
        eventually(lambda: "links  of b" in screen(), 10, 0.2)
        press("Escape")
        time.sleep(0.6)  # a terminal takes Escape and a key at once for one with Alt
        press("c")
        eventually(lambda: "dashboard" in screen(), 20, 0.3)
        press("e")
        eventually(lambda: "started" in screen() or "link.up" in screen() or "soft." in screen(), 20, 0.3)
        press("/")
        time.sleep(0.5)
        press("j", "o", "i", "n", "e", "d", "Enter")
        eventually(lambda: "only 'joined'" in screen(), 10, 0.3)
        press("C-c")
        eventually(after.exists, 15, 0.2)
        assert " echo " in after.read_text().replace("\n", " ") and "-icanon" not in after.read_text()
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True)
