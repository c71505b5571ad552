"""What the page shows of a recording: layouts, states, names that are markup, a cut stream, two themes."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.relay import Relay
from tests.system.overlay import ROOT
from tests.web.browsing import Served, Tabs
from tests.web.recordings import (
    HOSTILE,
    binary,
    channel_reports,
    happened,
    ring_reports,
    segment_reports,
    write,
)

AXE = "4.10.2"
PIXELS = "document.querySelector('#front').getContext('2d').getImageData(200, 40, 900, 400).data"
DRAWN = f"[...{PIXELS}].some(Boolean)"


@pytest.fixture(autouse=True)
def recorded(tabs: Tabs) -> None:
    """A recording answers only what was asked in it: details of a broker are a 404."""
    tabs.allowed = ("status of 404", "willReadFrequently")


def serve(tmp_path: Path, recording: Path, *more: str) -> Served:
    return Served(tmp_path, "--replay", str(recording), *more)


# --- numbers and shapes --------------------------------------------------------------------------------


def test_the_numbers_of_a_recording_are_on_the_page(tmp_path: Path, tabs: Tabs) -> None:
    """Ten accepted and twenty delivered a second at each of fifteen, and five to each parent."""
    with serve(tmp_path, write(tmp_path / "r.jsonl", 60, binary(15)), "--speed", "4") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.total.accepted_s === 150")
        assert (tab.text("#t-brokers"), tab.text("#t-accepted"), tab.text("#t-delivered")) == (
            "15",
            "150",
            "300",
        )
        assert tab.text("#health") == "✓ all 15 well"
        row = tab.row("b2")
        assert (row[2], row[3], row[4], row[5]) == (20, 25, 10, 20)  # in: 10 accepted and 5 of each child
        tab("grapevine.page.select({broker: grapevine.model.byName.get('b2').i})")
        tab.until("document.querySelector('#panel').innerText.includes('25 /s')")
        widths = tab("grapevine.view.curves.map(c => c.ab + c.ba)")
        assert widths == [5] * 14
        tab.page.keyboard.press("t")
        line = tab.page.locator("#table tbody tr", has_text="b2").first.inner_text().split()
        assert line[:2] == ["b2", "ready"] and "20" in line and "25" in line
        tab.shot("table")


def test_a_width_is_a_rate(tmp_path: Path, tabs: Tabs) -> None:
    """The same counters, standing still: every link is thin, whatever it carried before."""

    def still(second: int, here: dict[str, Any]) -> None:
        for one in here["beats"].values():
            for known in one[19]:
                known[2] += 5_000_000
                if second > 5:
                    known[2], known[3] = 5_000_025, 25

    with serve(tmp_path, write(tmp_path / "r.jsonl", 40, binary(7), still), "--speed", "5") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.past.length > 9")
        assert tab("grapevine.view.curves.length") == 0  # nothing moves
        assert tab("[...grapevine.model.links.keys()].every(i => grapevine.model.rate(i) === 0)")


def test_a_broker_that_dies_is_red_and_stays(tmp_path: Path, tabs: Tabs) -> None:
    def dies(second: int, here: dict[str, Any]) -> None:
        if second >= 4:
            for name in ("b5", "b10", "b11"):
                del here["beats"][name]
        if 4 <= second < 12:
            here["look"] |= {"missing": ["b5"], "cut_off": ["b10"]}
        if second == 4:
            here["lines"].append(happened(4, "b2", "link.down", "no link to b5", "warn", peer="b5"))

    with serve(tmp_path, write(tmp_path / "r.jsonl", 60, binary(15), dies), "--speed", "2") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.byName.get('b5')?.state === 'no answer'")
        assert (tab.state("b10"), tab.state("b11")) == ("cut off", "cut off")
        assert tab.text("#health") == "✕ b5 does not answer"
        tab.until("document.querySelector('#timeline').innerText.includes('no link to b5')")
        tab("grapevine.page.select({broker: grapevine.model.byName.get('b5').i})")
        tab.shot("no-answer")
        tab.until("grapevine.model.byName.get('b5')?.state === 'gone'")
        assert tab.text("#t-brokers") == "15"  # nobody vanishes
        tab.until("document.querySelector('#panel').innerText.includes('Dismiss')")
        tab.page.get_by_role("button", name="Dismiss").click()
        tab.until("!grapevine.model.byName.get('b5')")


def test_a_restarted_broker_has_no_rate_for_a_moment(tmp_path: Path, tabs: Tabs) -> None:
    def restarts(second: int, here: dict[str, Any]) -> None:
        if second >= 6:
            one = here["beats"]["b3"]
            one[2], one[6] = 2, 50_000_000 + 10 * second

    with serve(tmp_path, write(tmp_path / "r.jsonl", 30, binary(7), restarts), "--speed", "3") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.events.some(e => e.kind === 'restart')")
        tab.until("grapevine.model.total.accepted_s === 70")
        most = tab("Math.max(...grapevine.model.past.map(p => p.total.accepted_s ?? 0))")
        assert most <= 70


# --- layouts -------------------------------------------------------------------------------------------


def test_every_layout_is_drawn(tmp_path: Path, tabs: Tabs) -> None:
    def soft(second: int, here: dict[str, Any]) -> None:
        here["beats"]["b8"][19].append(["b2", "soft", 300 * second, 0, None, None, 3, 1.5, 4253.0])
        if second == 3:
            text = "soft link b8 → b2 carries publications past b4: gain 4253"
            here["lines"].append(
                happened(3, "b8", "soft.promoted", text, to="b2", bypasses=["b4"], **{"from": "b8"})
            )

    reports = channel_reports(binary(15))
    bypass = {"name": "b2", "kind": "soft", "state": "active", "parent": False, "bypasses": ["b4"]}
    next(r for r in reports if r["name"] == "b8")["rows"].append(bypass)
    recording = write(tmp_path / "r.jsonl", 300, binary(15), soft, reports=reports)
    with serve(tmp_path, recording, "--speed", "3") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.total.bypassed > 0.5")
        assert [b.inner_text() for b in tab.page.locator("#layouts button").all()] == [
            "Tree", "Radial", "Channels", "Hosts", "Table",
        ]  # fmt: skip
        for name in ("tree", "radial", "channels", "hosts", "table"):
            tab.page.locator(f"[data-layout={name}]").click()
            time.sleep(0.4)
            tab.shot(f"layout-{name}")
            if name != "table":
                assert tab(DRAWN), name


def test_a_ring(tmp_path: Path, tabs: Tabs) -> None:
    reports = ring_reports(24)
    recording = write(tmp_path / "r.jsonl", 100, {r["name"]: None for r in reports}, reports=reports)
    with serve(tmp_path, recording, "--speed", "2") as served:
        tab = tabs(served.url).ready()
        assert tab("grapevine.view.layout") == "ring"
        tab("grapevine.page.select({broker: 3})")
        assert tab("grapevine.view.visibleLinks().filter(l => l.kind === 'finger').length") >= 3
        tab.shot("layout-ring")


def test_segments(tmp_path: Path, tabs: Tabs) -> None:
    reports = segment_reports()
    recording = write(tmp_path / "r.jsonl", 100, {r["name"]: None for r in reports}, reports=reports)
    with serve(tmp_path, recording, "--speed", "2") as served:
        tab = tabs(served.url).ready()
        assert tab("grapevine.view.layout") == "segments"
        tab.shot("layout-segments")


# --- what else a page must stand -----------------------------------------------------------------------


def test_names_are_text(tmp_path: Path, tabs: Tabs) -> None:
    """Of brokers, clients, filters and events: other people's text is never markup."""
    parents: dict[str, str | None] = {"b1": None, HOSTILE: "b1", "</script><script>alert(1)</script>": "b1"}

    def says(second: int, here: dict[str, Any]) -> None:
        if second == 2:
            here["lines"].append(happened(2, HOSTILE, HOSTILE, f"{HOSTILE} happened", publisher=HOSTILE))

    with serve(tmp_path, write(tmp_path / "r.jsonl", 60, parents, says), "--speed", "2") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.events.length > 0")
        tab("grapevine.page.select({broker: 1})")
        tab.page.keyboard.press("t")
        tab.page.keyboard.press("t")
        tab.page.locator("#timeline button").first.click()
        time.sleep(1)
        assert tab("document.querySelectorAll('img').length") == 0
        assert tab("document.querySelectorAll('script').length") == 2
        assert "broken" not in tab("document.title")
        assert HOSTILE in tab("document.querySelector('#timeline').innerText")
        tab.shot("hostile-names")


def test_a_stream_that_is_cut_twenty_times_loses_and_doubles_nothing(tmp_path: Path, tabs: Tabs) -> None:
    def says(second: int, here: dict[str, Any]) -> None:
        here["lines"] += [happened(second, "b2", "note", f"event {second}.{n}") for n in range(3)]

    with serve(tmp_path, write(tmp_path / "r.jsonl", 400, binary(3), says), "--speed", "4") as served:
        cutter = Relay(f"tcp://127.0.0.1:{served.port}")
        tab = tabs(f"http://127.0.0.1:{cutter.port}/#{served.token}")
        tab.allowed = ("ERR_", "Failed to load")
        tab.ready()
        hit = 0
        while hit < 20:  # the page waits a little before it connects again
            time.sleep(0.3)
            hit += cutter.cut() > 0
        time.sleep(2.5)
        tab.until("grapevine.model.events.length > 60", 40)
        numbers = tab("grapevine.model.events.map(e => e.n)")
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[0] == 1
        shown = tab("[...document.querySelectorAll('#timeline li')].map(l => Number(l.dataset.n))")
        assert shown == sorted(set(shown))
        cutter.close()


def test_looking_back(tmp_path: Path, tabs: Tabs) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 200, binary(7)), "--speed", "6") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.past.length > 20")
        tab.page.locator("#when").evaluate("e => { e.value = 2; e.dispatchEvent(new Event('input')); }")
        assert "not now" in tab.text("#banner")
        then = tab("grapevine.model.shown.t")
        time.sleep(1)
        assert tab("grapevine.model.shown.t") == then
        tab.shot("look-back")
        tab.page.keyboard.press("Escape")
        tab.until("!grapevine.model.frozen")


# --- states --------------------------------------------------------------------------------------------


def test_a_wrong_token_says_what_to_do(tmp_path: Path, tabs: Tabs) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 30, binary(3))) as served:
        tab = tabs(served.url[:-4] + "xxxx")
        tab.allowed = ("401",)
        tab.until("!document.querySelector('#empty').hidden")
        assert "not right" in tab.text("#empty")
        tab.shot("state-token-wrong")
        tab.wrong.clear()


def test_a_lost_broker_greys_the_picture(tmp_path: Path, tabs: Tabs) -> None:
    def lost(second: int, here: dict[str, Any]) -> None:
        if 6 <= second < 40:
            here["lost"] = "nobody listens at tcp://10.0.0.1:7470"

    with serve(tmp_path, write(tmp_path / "r.jsonl", 60, binary(7), lost), "--speed", "2") as served:
        tab = tabs(served.url).ready()
        tab.until("document.querySelector('#stage').classList.contains('old')", 30)
        assert "does not answer" in tab.text("#banner") and "nobody listens" in tab.text("#banner")
        tab.shot("state-lost")
        tab.until("!document.querySelector('#stage').classList.contains('old')", 40)


@pytest.mark.parametrize(
    ("name", "brokers", "clients"), [("one-broker", 1, 0), ("no-clients", 3, 0), ("idle", 7, 1)]
)
def test_small_overlays_say_what_is_next(
    tmp_path: Path, tabs: Tabs, name: str, brokers: int, clients: int
) -> None:
    def empty(second: int, here: dict[str, Any]) -> None:
        for one in here["beats"].values():
            one[17] = clients
            one[6] = one[7] = one[8] = one[20] = 0
            for known in one[19]:
                known[2] = known[3] = 0

    with serve(tmp_path, write(tmp_path / "r.jsonl", 40, binary(brokers), empty), "--speed", "2") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.model.past.length > 3")
        said = tab(
            "document.querySelector('#empty').hidden ? '' : document.querySelector('#empty').innerText"
        )
        assert ("pubctl pub" in said) is (name == "no-clients")
        assert tab.text("#t-accepted") == "0"
        tab.shot(f"state-{name}")


def test_the_end_of_a_recording_and_of_the_server(tmp_path: Path, tabs: Tabs) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 4, binary(3)), "--speed", "4") as served:
        tab = tabs(served.url).ready()
        tab.allowed = ("ERR_", "Failed to load")
        tab.until("document.querySelector('#banner').innerText.includes('has ended')")
        served.__exit__()
        tab.until("document.querySelector('#banner').innerText.includes('stopped')")
        tab.shot("state-stopped")
        assert tab("grapevine.model.brokers.size") == 3  # the last picture stays


def test_narrow_dark_projector_and_without_motion(tmp_path: Path, tabs: Tabs) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 200, binary(15)), "--speed", "2") as served:
        narrow = tabs(served.url, 390, 844).ready()
        narrow.until("grapevine.model.past.length > 2")
        assert narrow("document.documentElement.scrollWidth <= 390")
        narrow.shot("narrow")
        dark = tabs(served.url, 1280, 720, color_scheme="dark").ready()
        assert dark("document.documentElement.dataset.theme") == "dark"
        dark.until("grapevine.model.past.length > 2")
        dark.shot("dark")
        dark.page.keyboard.press("p")
        assert dark("getComputedStyle(document.body).fontSize") == "20px"
        dark.shot("projector")
        still = tabs(served.url, reduced_motion="reduce").ready()
        still.until("grapevine.model.past.length > 3")
        assert still("grapevine.view.stats.frames") == 0


def test_by_keyboard_alone(tmp_path: Path, tabs: Tabs) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 200, binary(7)), "--speed", "2") as served:
        tab = tabs(served.url).ready()
        tab.until("grapevine.view.shapes.size === 7")
        tab.page.locator("#front").focus()
        tab.page.keyboard.press("ArrowDown")
        first = tab("grapevine.model.name(grapevine.view.cursor)")
        assert first in ("b2", "b3")
        tab.page.keyboard.press("Enter")
        tab.until(
            "document.querySelector('#panel h2')?.innerText === grapevine.model.name(grapevine.view.selected)"
        )
        tab.page.keyboard.press("Escape")
        tab.until("grapevine.view.selected === null")
        tab.page.keyboard.press("/")
        tab.page.keyboard.type("b7")
        tab.page.keyboard.press("Enter")
        tab.until("document.querySelector('#panel h2')?.innerText === 'b7'")
        tab.page.keyboard.press("Escape")
        tab.page.keyboard.press("?")
        tab.until("document.querySelector('#help').open")
        assert "7 ready" in tab("document.querySelector('#said').textContent")


def axe_source() -> str:
    """axe-core, by npm; kept beside the other caches."""
    kept = ROOT / ".cache" / f"axe-{AXE}.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip("no npm to fetch axe-core with")
        kept.parent.mkdir(exist_ok=True)
        done = subprocess.run(
            ["npm", "pack", f"axe-core@{AXE}", "--silent"], cwd=kept.parent, capture_output=True, timeout=120
        )
        if done.returncode:
            pytest.skip("axe-core could not be fetched")
        with tarfile.open(kept.parent / f"axe-core-{AXE}.tgz") as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            kept.write_bytes(member.read())
    return kept.read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(tmp_path: Path, tabs: Tabs, scheme: str) -> None:
    source = axe_source()
    with serve(tmp_path, write(tmp_path / "r.jsonl", 200, binary(7)), "--speed", "2") as served:
        tab = tabs(served.url, color_scheme=scheme, bypass_csp=True).ready()
        tab.until("grapevine.model.past.length > 3")
        tab("grapevine.page.select({broker: 1})")
        tab.page.evaluate(source)
        for view in ("picture", "table"):
            found = tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            bad = [
                (v["id"], v["impact"], [n["html"][:120] for n in v["nodes"][:3]])
                for v in found["violations"]
                if v["impact"] in ("serious", "critical")
            ]
            assert not bad, (view, bad)
            tab.page.keyboard.press("t")
            time.sleep(0.5)


# --- strangers over HTTP -------------------------------------------------------------------------------


def test_a_stranger_gets_nothing_from_the_running_server(tmp_path: Path) -> None:
    with serve(tmp_path, write(tmp_path / "r.jsonl", 60, binary(3))) as served:

        def ask(method: str, path: str, **headers: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
            body = json.dumps({"token": served.token}) if method == "POST" else None
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"Host": f"127.0.0.1:{served.port}", **given})
            status = connection.getresponse().status
            connection.close()
            return status

        assert ask("GET", "/") == 200
        assert ask("GET", "/", Host="evil.example") == 421
        assert ask("GET", "/api/v1/overlay") == 401
        kind = {"Content_Type": "application/json"}
        assert ask("POST", "/session", **kind) == 403  # no Origin
        assert ask("POST", "/session", Origin="http://evil.example", **kind) == 403
        assert ask("POST", "/session", Origin=f"http://127.0.0.1:{served.port}", **kind) == 200
