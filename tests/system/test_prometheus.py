"""The dashboard and the alerts by Debian's Prometheus: every expression finds something at real brokers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.system.overlay import ROOT, Overlay, eventually, free_port

GRAFANA = ROOT / "docs" / "grafana"
RATHER_NOTHING = (
    "grapevine_refused_total",
    "grapevine_connections_refused_total",
)  # counted once there is one


def expressions() -> list[str]:
    """Of the dashboard, with the interval that Grafana would put in."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("expr"), str):
                found.append(value["expr"].replace("$__rate_interval", "10s"))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads((GRAFANA / "brokers.json").read_text()))
    return found


def test_the_alerts_are_well_formed() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool (Debian's package prometheus)")
    done = subprocess.run(
        ["promtool", "check", "rules", GRAFANA / "alerts.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = (GRAFANA / "alerts.yml").read_text().count("- alert:")
    assert f"{alerts} rules found" in done.stdout


def test_every_expression_finds_something(overlay: Overlay, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus (Debian's package)")
    ports = [free_port() for _ in range(2)]
    overlay.start("b1", http={"listen": f"127.0.0.1:{ports[0]}"})
    overlay.start("b2", "b1", http={"listen": f"127.0.0.1:{ports[1]}"})
    targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 1s}}\nrule_files: ['{GRAFANA / 'alerts.yml'}']\n"
        f"scrape_configs:\n  - job_name: grapevine\n    static_configs:\n      - targets: [{targets}]\n"
    )
    listen = f"127.0.0.1:{free_port()}"
    words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    with open(tmp_path / "log", "wb") as log:
        running = subprocess.Popen([*words, f"--web.listen-address={listen}"], stdout=log, stderr=log)
    try:
        with (
            grapevine.connect(overlay["b1"].address, keys=overlay["b1"].keys, name="p") as publisher,
            grapevine.connect(overlay["b2"].address, keys=overlay["b2"].keys, name="s") as subscriber,
        ):
            subscriber.subscribe("x > 0")
            for _ in range(60):
                publisher.publish({"x": 1})
                time.sleep(0.1)
            for expression in expressions():
                names = re.findall(r"(?:grapevine|process)_\w+", expression)
                if not set(names) & set(RATHER_NOTHING):
                    assert eventually(lambda asked=expression: ask(listen, asked)), expression  # type: ignore[misc]
        assert eventually(lambda: ask(listen, "up")) == [1.0, 1.0]
    finally:
        running.terminate()
        running.wait(20)


def ask(listen: str, expression: str) -> list[float]:
    """The values now; [] while there are none."""
    url = f"http://{listen}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.load(answer)
    except OSError:
        return []
    return [float(row["value"][1]) for row in found["data"]["result"] if row["value"][1] != "NaN"]
