"""What other programs see of a broker over HTTP: counters, health, readiness, and the overlay as JSON."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.error
import urllib.request

import pytest

import grapevine
from tests.system.overlay import ROOT, Daemon, Overlay, eventually, free_port


def served(overlay: Overlay, name: str, parent: str = "") -> tuple[Daemon, str]:
    listen = f"127.0.0.1:{free_port()}"
    return overlay.start(name, parent, http={"listen": listen}), f"http://{listen}"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(url: str) -> dict[str, float]:
    status, text = get(f"{url}/metrics")
    assert status == 200
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_metrics_count_what_happened(overlay: Overlay) -> None:
    daemon, url = served(overlay, "b1")
    with (
        grapevine.connect(daemon.address, name="secret-name", keys=daemon.keys) as publisher,
        grapevine.connect(daemon.address, name="reader", keys=daemon.keys) as reader,
    ):
        sub = reader.subscribe("n > 5")
        for n in range(10):
            publisher.publish({"n": n})
        publisher.flush()
        assert len(sub.next_batch(4, timeout=30)) == 4
        found = samples(url)
    assert found["grapevine_publications_accepted_total"] == 10
    assert found["grapevine_publications_delivered_total"] == 4
    assert (found["grapevine_clients"], found["grapevine_ready"], found["grapevine_neighbours"]) == (2, 1, 0)
    assert found["grapevine_loop_turns_total"] > 0
    assert found["process_resident_memory_bytes"] > 10_000_000
    text = get(f"{url}/metrics")[1]
    assert "secret-name" not in text
    assert set(re.findall(r"\{(\w+)=", text)) <= {"reason"}


def test_metrics_are_well_formed(overlay: Overlay) -> None:
    text = get(f"{served(overlay, 'b1')[1]}/metrics")[1]
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]+"\})? [\d.e+-]+', line), line
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total")
        assert f"# HELP {name} " in text


def test_the_dashboard_asks_for_what_is_served(overlay: Overlay) -> None:
    text = get(f"{served(overlay, 'b1')[1]}/metrics")[1]
    board = json.loads((ROOT / "docs/grafana/brokers.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"(?:grapevine|process)_[a-z_]+", target["expr"])
    }
    assert len(asked) > 10
    assert not {name for name in asked if f"# TYPE {name} " not in text}


def test_readiness_and_health(overlay: Overlay) -> None:
    absent = f"tcp://127.0.0.1:{free_port()}"
    listen = f"127.0.0.1:{free_port()}"
    waiting = overlay.add("b1", http={"listen": listen}, tree={"neighbours": [absent]}).start()
    eventually(lambda: "metrics and health" in waiting.log())
    assert get(f"http://{listen}/healthz") == (200, "ok\n")
    assert get(f"http://{listen}/readyz") == (503, "waiting for neighbours\n")
    _, url = served(overlay, "b2")
    assert get(f"{url}/readyz") == (200, "ok\n")
    assert get(f"{url}/nothing")[0] == 404


def test_the_overlay_as_json(overlay: Overlay) -> None:
    _, url = served(overlay, "b1")
    overlay.start("b2", "b1")
    listed = json.loads(get(f"{url}/api/v1/")[1])["verbs"]
    assert "/api/v1/link/ls" in listed
    document = json.loads(get(f"{url}/api/v1/status")[1])
    assert document["schema"] == "grapevine.status/1"
    assert sorted(row["name"] for row in document["brokers"]) == ["b1", "b2"]
    links = json.loads(get(f"{url}/api/v1/link/ls?broker=b2")[1])
    assert [row["name"] for row in links["brokers"]] == ["b2"]
    assert get(f"{url}/api/v1/broker/info?broker=b9")[0] == 404
    assert get(f"{url}/api/v1/broker/info")[0] == 400


@pytest.mark.parametrize("verb", ["broker/drain?broker=b1", "reload", "config", "nonsense"])
def test_nothing_can_be_changed(overlay: Overlay, verb: str) -> None:
    daemon, url = served(overlay, "b1")
    assert get(f"{url}/api/v1/{verb}")[0] == 404
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/{verb}", method="POST"), timeout=30)
    assert daemon.process is not None and daemon.process.poll() is None


def test_a_caller_who_says_nothing_holds_up_nobody_for_long(overlay: Overlay) -> None:
    daemon, url = served(overlay, "b1")
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))):
        assert get(f"{url}/healthz")[0] == 200
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0


def test_an_address_in_use_is_said_in_one_line(overlay: Overlay) -> None:
    _, url = served(overlay, "b1")
    second = overlay.add("b2", http={"listen": url.removeprefix("http://")}).start()
    assert second.wait() == 1
    assert "change http.listen" in second.log()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("[::1]:{port}", 200),
        (f"{socket.gethostname()}:{{port}}", 200),
        ("metrics.lab:{port}", 200),
        ("rebound.example:{port}", 421),
        ("127.0.0.1.example", 421),
        ("", 421),
    ],
)
def test_another_host_is_not_answered(overlay: Overlay, host: str, status: int) -> None:
    """A name of a stranger's that leads here would let a page in a browser read the overlay."""
    port = free_port()
    overlay.start("b1", http={"listen": f"127.0.0.1:{port}", "hosts": ["metrics.lab"]})
    asked = f"GET /api/v1/status HTTP/1.1\r\nAccept: */*\r\nhOST: {host.format(port=port)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(asked.encode())
        assert int(connection.recv(65_536).split()[1]) == status
