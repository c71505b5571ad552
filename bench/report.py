"""`python -m bench.report [--results bench/results]`: bench/figures.md, docs/benchmarks.md from what was measured.

Every document is what a bench prints with `-o json`, kept under its name: broker.json, latency.json, memory.json,
startup.json, scale.json, features.json, spark.json. What is not there is left out, broker-1.json, broker-2.json... are one. `--check` judges
broker.json against the bars and fails if one is missed or none was measured.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.bars import judge
from bench.broker import PEERS
from bench.guard import COMMITTED

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "bench" / "figures.md"
RATIOS = ROOT / "docs" / "benchmarks.md"
METHOD = Path(__file__).with_name("method.md")
HIDDEN = ("runs",)
COLOURS = {"grapevine": "#1b7837", "grapevine-curve": "#7fbf7b", "nats": "#2166ac", "redis": "#b2182b"}
PLAIN = {"grapevine-curve": "grapevine", "grapevine-libzmq-curve": "grapevine-libzmq"}


RATIOS_HEAD = """# How fast
Ratios within one run, since absolute figures of a shared machine move by a quarter. Everything measured, how,
and where the time goes: [bench/figures.md](../bench/figures.md); what operating costs:
[bench/operating.md](../bench/operating.md). Written by `python -m bench.report`.

T1 is one publisher, one topic, one subscriber; T2 100 topics and 10 subscribers; T3 one topic and 10
subscribers, 200 bytes each. C1-N has N content filters, of which 1 % match. *Python client* is the library
end to end beside the others' Python libraries. To measure it yourself, beside whatever is installed:

```
uv run --group bench python -m bench.broker --peers nats --workloads T1,T2
uv run --group bench python -m bench.requests --rounds 5
```
"""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """By name. What was measured in several runs (broker-1.json, broker-2.json) is one document."""
    documents: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        known = documents.setdefault(path.stem.partition("-")[0], document)
        if known is not document:
            known["rows"] += document["rows"]
            known["missing"] += document["missing"]
            known["rounds"] = min(known["rounds"], document["rounds"])
            known["scale"] = min(known["scale"], document["scale"])
            known["real_quotes"] = known["real_quotes"] and document["real_quotes"]
            known["machine"]["load"] = max(known["machine"]["load"], document["machine"]["load"])
            known["machine"]["compiled"] = all(d["machine"].get("compiled", True) for d in (known, document))
    return documents


def markdown(rows: list[dict[str, Any]]) -> str:
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name not in HIDDEN]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def bars(document: dict[str, Any]) -> str:
    lines = ["| claim | bar | measured | |", "|---|---|---|---|"]
    for bar, value, word in judge(document):
        sign = "at most" if bar.at_most else "at least"
        measured = "" if value is None else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
        shown = word if word == "met" else f"**{word}**"
        lines.append(f"| {bar.claim} | {sign} {_cell(bar.least)} | {measured} | {shown} |")
    return "\n".join(lines)


def kept(rows: list[dict[str, Any]]) -> str:
    """What CURVE keeps, by raw clients and by those that go through libzmq, whether there is a bar or not."""
    by_name = {(row["system"], row["workload"]): row for row in rows}
    lines = [
        "| with CURVE | workload | of | deliveries/s kept | the broker's processor time, times |",
        "|" + "---|" * 5,
    ]
    for (system, workload), row in by_name.items():
        plain = by_name.get((PLAIN.get(system, ""), workload))
        if plain is not None:
            share = row["deliveries_s"] / plain["deliveries_s"]
            times = row["broker_us_per_msg"] / plain["broker_us_per_msg"]
            lines.append(f"| {system} | {workload} | {plain['system']} | {share:.2f} | {times:.2f} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def machine(document: dict[str, Any]) -> str:
    about = document["machine"]
    words = f"{about['date']}, {about['cores']} cores, load {about['load']} at the end, "
    words += f"Python {about['python']}, {about['system']}"
    if not about.get("compiled", True):
        words += ", without the compiled loops"
    if "rounds" in document:
        words += f"; median of {document['rounds']} interleaved rounds"
    if document.get("scale", 1.0) != 1.0:
        words += f"; workloads at {document['scale']:g} of their full size or more"
    if not document.get("real_quotes", True):
        words += "; quotes made up"
    return f"Measured {words}."


TITLES = {
    "broker": ("Beside the peers", "python -m bench.broker -o json"),
    "latency": ("Delay at a steady rate", "python -m bench.latency -o json"),
    "features": ("What a feature costs", "python -m bench.features -o json"),
    "scale": ("Cost against one thing at a time", "python -m bench.scale -o json"),
    "memory": ("Memory", "python -m bench.memory --peers -o json"),
    "startup": ("Start", "python -m bench.startup -o json"),
    "spark": ("Spark feeds Parquet into one broker", "python -m bench.spark -o json"),
}


def page(documents: dict[str, dict[str, Any]], pictures: list[str]) -> str:
    parts = [METHOD.read_text().rstrip(), counted()]
    for name, (title, command) in TITLES.items():
        document = documents.get(name)
        if document is None:
            continue
        parts.append(f"## {title}\n`{command}`. {machine(document)}")
        if name == "broker":
            parts += filter(None, (bars(document), kept(document["rows"])))
            parts += [
                _missing({"system": peer, "reason": "T1, T2, T3"}) for peer in _left_out(document["rows"])
            ]
        parts += [_missing(gap) for gap in document.get("missing", [])]
        parts += [f"![{title}]({file})" for file in pictures if file.startswith(f"benchmarks-{name}")]
        parts.append(markdown(document["rows"]))
    return "\n\n".join(parts) + "\n"


def ratios(document: dict[str, Any]) -> str:
    """The page for readers: beside the others, and against the bars."""
    return f"{RATIOS_HEAD}\n{machine(document)}\n\n{bars(document)}\n"


def counted() -> str:
    """The committed figures of the guard, which are the same on every machine."""
    lines = ["| counted per publication | bytecodes | calls into C |", "|---|---|---|"]
    for python, figures in json.loads(COMMITTED.read_text()).items():
        lines += [f"| {w}, Python {python} | {f['bytecodes']} | {f['calls']} |" for w, f in figures.items()]
    return "\n".join(lines)


def _left_out(rows: list[dict[str, Any]]) -> list[str]:
    """Peers without a row of the topics."""
    return [
        peer for peer in PEERS if not any((row["system"], row["workload"]) == (peer, "T1") for row in rows)
    ]


def _missing(gap: dict[str, str]) -> str:
    return f"Not measured: {gap['system']} ({gap['reason']})."


# --- pictures ------------------------------------------------------------------------------------------


def draw(documents: dict[str, dict[str, Any]], folder: Path) -> list[str]:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "grapevine"
    drawn = []
    for name, figure in (("broker", _draw_broker), ("scale", _draw_scale)):
        if name in documents:
            picture = figure(documents[name]["rows"])
            if picture is not None:
                file = f"benchmarks-{name}.svg"
                picture.savefig(folder / file, metadata={"Date": None}, bbox_inches="tight")
                drawn.append(file)
    return drawn


def _draw_broker(rows: list[dict[str, Any]]) -> Any:
    import matplotlib.pyplot as plt

    workloads = [w for w in ("T1", "T2", "T3") if any(row["workload"] == w for row in rows)]
    if not workloads:
        return None
    figure, axes = plt.subplots(1, len(workloads), figsize=(3.4 * len(workloads), 3))
    for axis, workload in zip(axes if len(workloads) > 1 else [axes], workloads, strict=True):
        shown = [row for row in rows if row["workload"] == workload]
        colours = [COLOURS.get(row["system"], "#999999") for row in shown]
        axis.barh(
            [row["system"] for row in shown], [row["deliveries_s"] / 1e3 for row in shown], color=colours
        )
        axis.invert_yaxis()
        axis.set_title(workload)
        axis.set_xlabel("thousand deliveries/s")
    figure.tight_layout()
    return figure


def _draw_scale(rows: list[dict[str, Any]]) -> Any:
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(row["against"] for row in rows))
    figure, axes = plt.subplots(1, len(kinds), figsize=(3 * len(kinds), 2.8))
    for axis, kind in zip(axes if len(kinds) > 1 else [axes], kinds, strict=True):
        shown = [row for row in rows if row["against"] == kind]
        axis.plot([row["value"] for row in shown], [row["broker_us_per_msg"] for row in shown], "o-")
        axis.set_xlabel(kind)
        axis.set_ylabel("broker us a publication")
        axis.set_ylim(bottom=0)
        if kind != "brokers":
            axis.set_xscale("log")
    figure.tight_layout()
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(
        "bench.report", description="bench/figures.md and docs/benchmarks.md from measured documents"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", nargs="?", const="", metavar="TEXT", help="judge the bars with this text")
    options = parser.parse_args()
    documents = read(options.results)
    if options.check is not None:
        verdicts = [verdict for verdict in judge(documents["broker"]) if options.check in verdict[0].claim]
        for bar, value, word in verdicts:
            print(f"{word:12} {bar.claim}: {'' if value is None else round(value, 2)} (bar {bar.least:g})")
        words = [word for _, _, word in verdicts]
        return int("missed" in words or not {"met"} & set(words))
    pictures = draw(documents, options.page.parent)
    options.page.write_text(page(documents, pictures))
    if options.page == PAGE and "broker" in documents:
        RATIOS.write_text(ratios(documents["broker"]))
    print(f"{options.page}: {', '.join(documents)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
