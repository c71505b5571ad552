"""The page of the channels' demo: a map of the city, loads of the brokers over time, some of what came."""

from __future__ import annotations

from html import escape
from typing import Any

from tools.pubctl.demo.emergencies import Audience, Play
from tools.pubctl.demo.helsinki import BROKERS, TYPES, City

COLOURS = {"fire": "#d33c2f", "flood": "#2f6fd3", "accident": "#c98a00", "storm": "#7a4fc4"}
LINES = ("#1b7f79", "#d3762f", "#5b5fc7", "#a83279", "#4f7a28")
WIDE, HIGH = 900, 560
SHOWN = 12

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 960px;
       padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.6rem } h2 { font-size: 1.1rem; margin-top: 2rem } .note { color: #5a6675 }
svg { width: 100%; height: auto; background: #f6f8fa; border-radius: 6px }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #dde3ea }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
"""


def page(play: Play, audience: Audience, summary: dict[str, Any]) -> str:
    verdict = "every row once and in order" if summary["exact"] else "NOT every row once and in order"
    covs = f"cov {summary['cov_nearest']} by nearest placement, {summary['cov_balanced']} after balancing"
    told = (
        f"{summary['reports']} reports became {summary['rows']} rows for {summary['subscribers']} people "
        f"at five brokers, {verdict}. {summary['moved']} subscribers were moved meanwhile: {covs}."
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Emergencies in Helsinki</title>'
        f"<style>{STYLE}</style><h1>Emergencies in Helsinki</h1><p>{escape(told)}</p>"
        f"<h2>The city</h2>{city_map(play, audience)}<p class=note>{legend(play.city)}</p>"
        f"<h2>Load of the brokers</h2>{loads(play)}{brokers(play, summary)}"
        f"<h2>What came last</h2>{results(audience)}</html>\n"
    )


def legend(city: City) -> str:
    kinds = ", ".join(f'<span style="color:{COLOURS[kind]}">{kind}</span>' for kind in TYPES)
    places = "of the ONE simulator's map of Helsinki" if city.real else "made up"
    return f"Reports: {kinds}. Squares are shelters, rings brokers, grey dots people; places are {places}."


def _placer(city: City) -> Any:
    spots = [*BROKERS.values(), *(person.at for person in city.people), *city.shelters.values()]
    south, north = min(s[0] for s in spots), max(s[0] for s in spots)
    west, east = min(s[1] for s in spots), max(s[1] for s in spots)

    def at(place: tuple[float, float]) -> tuple[float, float]:
        x = 30 + (place[1] - west) / (east - west) * (WIDE - 60)
        return round(x, 1), round(HIGH - 30 - (place[0] - south) / (north - south) * (HIGH - 60), 1)

    return at


def city_map(play: Play, audience: Audience) -> str:
    at = _placer(play.city)
    drawn = []
    for person in play.city.people:
        x, y = at(person.at)
        drawn.append(f'<circle cx="{x}" cy="{y}" r="2.2" fill="#8a97a8"/>')
    for name, place in play.city.shelters.items():
        x, y = at(place)
        drawn.append(
            f'<rect x="{x - 3}" y="{y - 3}" width="6" height="6" fill="#2e8540"><title>{name}</title></rect>'
        )
    for report in play.reports[-400:]:
        x, y = at((report.lat, report.lon))
        title = f"<title>{report.type} {report.id}</title>"
        drawn.append(
            f'<circle cx="{x}" cy="{y}" r="3.2" fill="{COLOURS[report.type]}" opacity=".65">{title}</circle>'
        )
    for colour, (name, place) in zip(LINES, BROKERS.items()):
        x, y = at(place)
        drawn.append(f'<circle cx="{x}" cy="{y}" r="9" fill="none" stroke="{colour}" stroke-width="3"/>')
        side = f'x="{x + 13}"' if x < WIDE - 90 else f'x="{x - 13}" text-anchor="end"'
        drawn.append(f'<text {side} y="{y + 5}" fill="{colour}" font-weight="bold">{name}</text>')
    return f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="map">{"".join(drawn)}</svg>'


def loads(play: Play) -> str:
    """One line for each broker; the vertical one is where balancing began."""
    end = max(look["at_s"] for look in play.looks) or 1
    most = max((look["max_bytes_s"] for look in play.looks), default=0) or 1
    drawn = []
    for colour, name in zip(LINES, BROKERS):
        spots = []
        for look in play.looks:
            load = next((row["load_bytes_s"] for row in look["brokers"] if row["broker"] == name), 0.0)
            spots.append(f"{20 + look['at_s'] / end * (WIDE - 40):.1f},{220 - load / most * 190:.1f}")
        drawn.append(f'<polyline points="{" ".join(spots)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    x = 20 + play.seconds / 2 / end * (WIDE - 40)
    drawn.append(
        f'<line x1="{x:.0f}" x2="{x:.0f}" y1="15" y2="225" stroke="#8a97a8" stroke-dasharray="4 4"/>'
    )
    drawn.append(f'<text x="{x + 6:.0f}" y="26" fill="#8a97a8">balancing on</text>')
    drawn.append(f'<text x="20" y="26" fill="#8a97a8">{most / 1000:.0f} kB/s</text>')
    drawn.append('<text x="20" y="238" fill="#8a97a8">0 s</text>')
    drawn.append(f'<text x="{WIDE - 20}" y="238" fill="#8a97a8" text-anchor="end">{end:.0f} s</text>')
    return f'<svg viewBox="0 0 {WIDE} 244" role="img" aria-label="loads">{"".join(drawn)}</svg>'


def brokers(play: Play, summary: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td style="color:{colour}">{name}</td><td class=n>{summary["placed"].get(name, 0)}</td>'
        f"<td class=n>{summary['ended'].get(name, 0)}</td></tr>"
        for colour, name in zip(LINES, BROKERS)
    )
    return f"<table><tr><th>broker<th class=n>nearest to<th class=n>serves at the end</tr>{rows}</table>"


def results(audience: Audience) -> str:
    rows = []
    for heard in [each for each in audience.heard if each.last][:SHOWN]:
        last = heard.last
        shelters = ", ".join(f"{s['name']} ({s['km']:.1f} km)" for s in last["shelters"])
        cells = (heard.person.name, heard.broker, f"{last['type']} {last['id']}", shelters)
        rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>subscriber<th>broker<th>last report<th>nearest shelters</tr>"
    return f"<table>{head}{''.join(rows)}</table>"
