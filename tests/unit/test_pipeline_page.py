"""The report's page: one file that needs nothing else, and says what the figures say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from pipeline.analysis import SILENT, Figures
from pipeline.overlay_map import drawn, laid_out, tree
from pipeline.page import alerts, judgement, page
from pipeline.plots import Bar, Line, bars, clock, duration, lines, log_ticks, short, ticks, time_ticks
from pipeline.steps import load_step_s, moment_ns, timeline_step_s
from pipeline.tables import BROKERS, derived, table
from pipeline.trouble import USAGE, Trouble

FIRST = 1_780_000_000_000_000_000
SCRIPT = "<script>alert(1)</script>"


def figures(**changes: Any) -> Figures:
    totals = {
        "events": 30, "accepted": 10, "forwarded": 8, "pure_forwards": 2, "delivered": 12, "unmatched": 0,
        "repeats_dropped": 0, "delay_p50_us": 900, "delay_p99_us": 12_000, "hops": 1.25, "hops_max": 3,
        "first_ns": FIRST, "last_ns": FIRST + 3_000_000_000, "early": 0, "relocations": 0, "publishers": 1,
        "subscriptions": 1, "reached": 8, "served": 6, "lost": 0, "in_flight": 0, "unseen": 0,
        "duplicates": 0, "yield": 0.75, "span_s": 3.0, "brokers": 2, "unseen_brokers": [],
        "peak_deliveries_s": 5.0, "torn_lines": 0, "damaged_lines": 0,
    } | changes  # fmt: skip
    counts = {"accepted": 5, "forwarded": 4, "pure_forwards": 1, "delivered": 6}
    spread = {"delay_p50_us": 900, "delay_p99_us": 12_000, "hops": 1.25}
    accounts = {"reached": 4, "served": 3, "lost": 0, "in_flight": 0, "unseen": 0, "duplicates": 0}
    brokers = [
        {"broker": name, "log": True, **SILENT, **counts, **spread, **accounts, "yield": 0.75}
        for name in ("b1", SCRIPT)
    ]
    step = FIRST // 1_000_000_000
    return Figures(
        totals,
        1.0,
        1.0,
        brokers,
        [{"publisher": "quotes", "first_broker": "b1", **counts, **spread, **accounts, "yield": None}],
        [{"client": "c1", "subscription": 1, "broker": "b1", "delivered": 12, "duplicates": 0, **spread}],
        [{"broker": "b1", "to": SCRIPT, "forwarded": 8, "pure_forwards": 2, "lost": 0, "in_flight": 0}],
        [{"step": step + n, **counts, **spread, "lost": n, "duplicates": 0} for n in (0, 1, 3)],
        [{"step": step, "broker": "b1", "forwarded": 8, "delivered": 12}],
        [{"hops": 1, "bin": 29, "delivered": 10}, {"hops": 3, "bin": 40, "delivered": 2}],
    )


def test_the_page_needs_nothing_else() -> None:
    text = page(figures(), "A run")
    assert not re.findall(r"""(?:src|href|url|import|fetch)\s*[=(]\s*["']?(?:https?:)?//""", text)
    assert not re.findall(r"<(?:link|img|iframe)\b", text)
    assert text.count("<svg") == 6
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_steps_in_time_are_a_table() -> None:
    """With what was lost in each; and by tenths of a second where steps are that short."""
    found = figures()
    found.step_s, found.timeline = 0.5, [row | {"step": row["step"] * 2 + 1} for row in found.timeline]
    text = page(found, "A run")
    assert "In steps of 0.5 seconds" in text
    times = re.findall(r">(2026-05-28 [\d:.]+)</td>", text)
    assert times == ["2026-05-28 20:26:40.5", "2026-05-28 20:26:41.5", "2026-05-28 20:26:43.5"]
    assert '<td class="bad" data-v="3">3</td>' in text


def test_names_are_text_and_no_markup() -> None:
    text = page(figures(), SCRIPT)
    assert SCRIPT not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_what_is_on_it() -> None:
    text = page(figures(), "A run")
    for said in ("nothing lost, nothing doubled", "900 µs", "12 ms", "75 %", "2026-05-28 20:26:40", "quotes"):
        assert said in text, said


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({}, "good", "nothing lost"),
        ({"lost": 1200}, "bad", "1,200 copies lost"),
        ({"lost": 1, "duplicates": 1}, "bad", "1 copy lost, 1 duplicate"),
        ({"duplicates": 3}, "bad", "3 duplicates"),
        ({"unseen": 5, "unseen_brokers": ["b7"]}, "warn", "where there are logs"),
    ],
)
def test_the_judgement(changes: dict[str, Any], kind: str, said: str) -> None:
    found = judgement(figures(**changes).totals)
    assert found[0] == kind
    assert said in found[1]


def test_doubts_are_told() -> None:
    totals = figures(unseen_brokers=["b7"], early=2, torn_lines=1, in_flight=4).totals
    assert [
        any(word in told for told in alerts(totals)) for word in ("b7", "clocks", "torn", "under way")
    ] == [True] * 4
    assert alerts(figures().totals) == []


def test_a_page_without_deliveries_and_links() -> None:
    nothing = dict.fromkeys(("delay_p50_us", "delay_p99_us", "hops", "hops_max"))
    found = figures(**nothing, forwarded=0, delivered=0, span_s=0.0)
    found.links, found.load, found.distribution, found.subscriptions = [], [], [], []
    for row in found.timeline:
        row |= {"delay_p50_us": None, "delay_p99_us": None, "delivered": 0}
    text = page(found, "Silence")
    for said in ("nothing was delivered", "nobody was subscribed", "No client got anything.", "No copy went"):
        assert said in text, said
    assert "nothing lost, nothing doubled" not in text
    assert text.count("Nothing to show") == 3


def test_rows_are_marked() -> None:
    row = figures().brokers[0] | {"lost": 7}
    text = table([row], BROKERS, 3.0)
    assert '<td class="bad" data-v="7">7</td>' in text
    assert derived({"delivered": 6, "accepted": 3, "forwarded": 0}, 2.0)["each"] == 2.0


# --- plots ----------------------------------------------------------------------------------------


def test_ticks() -> None:
    assert ticks(97) == [0, 50, 100]
    assert ticks(0) == [0, 1]
    assert ticks(0.4) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert log_ticks(900, 12_000) == [100, 1000, 10_000, 100_000]
    moments = time_ticks(FIRST, FIRST + 60e9)
    assert len(moments) in (6, 7) and all(ns % 10e9 == 0 for ns in moments)


def test_numbers_as_one_says_them() -> None:
    assert [short(n) for n in (0, 7.5, 999, 12_345, 4.56e6)] == ["0", "7.5", "999", "12.3k", "4.56M"]
    assert [duration(us) for us in (5, 1500, 2e6, 90e6)] == ["5 µs", "1.5 ms", "2 s", "1.5 min"]
    assert clock(FIRST, 10) == "20:26:40" and clock(FIRST, 7200) == "20:26" and clock(FIRST, 1e6) == "28 May"


def test_a_gap_is_no_line() -> None:
    drawn = lines([0, 1e9, 2e9, 3e9], [Line("p50", "delivered", [1.0, None, 3.0, 4.0])], duration, log=True)
    path = re.search(r'<path d="([^"]+)" class="line', drawn)
    assert path is not None and path[1].count("M") == 2
    assert path[1].count("h1.5") == 1  # the first point stands alone, and is seen


def test_bars_are_as_high_as_their_numbers() -> None:
    drawn = bars([Bar("a", 50, ""), Bar("b", 100, "")], "delivered")
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" class="bar', drawn)]
    assert heights[1] == pytest.approx(2 * heights[0])


# --- time -----------------------------------------------------------------------------------------


def test_steps() -> None:
    assert timeline_step_s(10) == 0.2
    assert timeline_step_s(599) == 10
    assert timeline_step_s(3600) == 60
    assert timeline_step_s(30 * 86_400) == 1800
    assert load_step_s(10) == 0.2


def test_moments() -> None:
    assert moment_ns("2026-05-28T20:26:40", "--since") == FIRST
    assert moment_ns("2026-05-28T22:26:40+02:00", "--since") == FIRST
    with pytest.raises(Trouble, match="--since yesterday") as error:
        moment_ns("yesterday", "--since")
    assert error.value.code == USAGE


# --- the map --------------------------------------------------------------------------------------


def test_the_map_hangs_from_the_busiest_and_draws_soft_links_dashed() -> None:
    carried = {("b1", "b2"): 10, ("b2", "b3"): 8, ("b3", "b4"): 5, ("b1", "b3"): 1}
    names = ["b1", "b2", "b3", "b4", "b9"]
    parents = tree(names, carried)
    assert parents == {"b2": None, "b1": "b2", "b3": "b2", "b4": "b3", "b9": None}
    places = laid_out(names, parents)
    assert len(set(places.values())) == 5
    assert places["b2"].y < places["b3"].y < places["b4"].y and places["b1"].x < places["b3"].x
    brokers = [{"broker": n, "forwarded": 1, "delivered": 2, "yield": None} for n in names]
    links = [{"broker": a, "to": b, "forwarded": amount} for (a, b), amount in carried.items()]
    drawing = drawn(brokers, links)
    ElementTree.fromstring(drawing)
    assert drawing.count('class="broker"') == 5
    assert re.findall(r"dasharray.*?<title>(.*?)</title>", drawing) == ["b1 and b3: 1 copies"]


def test_a_map_of_one_broker() -> None:
    assert "<circle" in drawn([{"broker": "b1", "forwarded": 0, "delivered": 0, "yield": None}], [])


def test_what_red_and_green_say_is_also_a_shape() -> None:
    """For who does not see the colours apart, and in print."""
    assert 'class="verdict good">✓ ' in page(figures(), "A run")
    spoilt = page(figures(lost=3), "A run")
    assert 'class="verdict bad">✕ ' in spoilt
    assert "<b>✕ 3 / 0</b>" in spoilt
    rows = [{"broker": "b1", "delivered": 3, "forwarded": 1, "yield": 0.25}]
    assert 'class="served" pathLength="100" stroke-dasharray="25 100"' in drawn(rows, [])
    assert "yield 25 %" in drawn(rows, [])
    assert 'class="served"' not in drawn([rows[0] | {"yield": 0.0}], [])


def test_a_dashboard_divides_by_what_it_says() -> None:
    """Matching is paid for each publication read, of clients and of brokers, and nothing is added to it."""
    from pathlib import Path

    import daemon.metrics

    text = Path("docs/grafana/brokers.json").read_text()
    assert "+ 1" not in text
    source = Path(daemon.metrics.__file__).read_text()
    for name in set(re.findall(r"grapevine_(\w+)", text)):
        known = name.replace("publications_", "").replace("_total", "")
        assert name in source or f'"{known}"' in source, name
