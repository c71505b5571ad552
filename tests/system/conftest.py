from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.overlay import Overlay


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    with Overlay(tmp_path) as running:
        yield running


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Overlay]:
    """Without CURVE, for tests that speak to the socket by hand."""
    with Overlay(tmp_path, security={"curve": False}) as running:
        yield running
