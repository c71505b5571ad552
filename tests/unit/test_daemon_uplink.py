"""The use of the uplink, measured: the fullest interface that knows its speed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from daemon.uplink import Uplink, fullest


def test_the_fullest_interface_decides() -> None:
    assert fullest({"a": 12_500_000, "b": 12_500_000}, {"a": 1000, "b": 100}, 2.0) == pytest.approx(0.5)
    assert fullest({"lo": 1e12, "a": 125_000}, {"lo": 0, "a": 1}, 2.0) == pytest.approx(0.5)
    assert fullest({"a": 1e12}, {"a": 10}, 1.0) == 1.0
    assert fullest({"lo": 1e12}, {}, 1.0) == 0.0, "nothing is known"


def test_what_was_sent_since_it_was_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"eth0": 1_000_000, "down": 0}
    cards: dict[str, Any] = {
        "eth0": SimpleNamespace(isup=True, speed=8),
        "down": SimpleNamespace(isup=False, speed=1),
    }
    monkeypatch.setattr(
        psutil,
        "net_io_counters",
        lambda pernic: {name: SimpleNamespace(bytes_sent=value) for name, value in sent.items()},
    )
    monkeypatch.setattr(psutil, "net_if_stats", lambda: cards)
    uplink = Uplink()
    assert uplink.use(1.0) == 0.0, "what went before nobody looked"
    sent["eth0"] += 900_000
    sent["down"] += 10**9
    sent["new"] = 10**9
    assert uplink.use(1.0) == pytest.approx(0.9)
    sent["eth0"] = 5
    assert uplink.use(1.0) == 0.0, "its counter began again"


def test_the_machine_is_asked_by_its_own_tables_and_may_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(pernic: bool) -> None:
        asked.append(psutil.PROCFS_PATH)
        raise FileNotFoundError("/proc/net/dev")

    before = psutil.PROCFS_PATH
    assert Uplink().use(1.0) == 0.0, "here it is asked in earnest"
    monkeypatch.setattr(psutil, "net_io_counters", refuse)
    assert Uplink().use(1.0) == 0.0
    assert asked == ["/proc/self"] and before == psutil.PROCFS_PATH
