"""Stories in a real browser: Debian's Chromium by Playwright. Without them the stage says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (group browser)")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from tests.web.browsing import Tabs  # noqa: E402 playwright may be missing


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("no chromium (Debian's package chromium, see .ci/packages)")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def tabs(browser: object) -> Iterator[Tabs]:
    made = Tabs(browser)  # type: ignore[arg-type]
    yield made
    made.close()
