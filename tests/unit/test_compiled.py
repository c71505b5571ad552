"""What the daemon says about its compiled loops when it starts."""

from __future__ import annotations

import pytest

from daemon import packing
from daemon.compiled import missing
from matching import kernel
from overlay.data import runs


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "module", None)
    monkeypatch.setattr(runs, "compiled", missing)
    monkeypatch.setattr(packing, "compiled", missing)
    assert missing() == ["matching"]
    monkeypatch.setattr(runs, "compiled", None)
    monkeypatch.setattr(packing, "compiled", None)
    assert missing() == ["matching", "routing", "frames"]
