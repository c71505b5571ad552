"""A page process and a browser that watches it: what the browser complains of fails the story."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.system.overlay import ROOT, eventually

SHOTS = ROOT / "build" / "screenshots"


class Served:
    """`pubctl web` with its own token; `url` is what it printed."""

    def __init__(self, directory: Path, *words: str, keys: Path | None = None, broker: str = "") -> None:
        self.log = directory / f"web-{len(list(directory.glob('web-*')))}.log"
        before = ["-b", broker] if broker else []
        environment = {**os.environ, "GRAPEVINE_KEYS": str(keys or directory / "keys")}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tools.pubctl.main",
                    *before,
                    "web",
                    "--listen",
                    "127.0.0.1:0",
                    *words,
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        found = eventually(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/#(\S+)", self.log.read_text()))
        self.url, self.port, self.token = found[0], int(found[1]), found[2]

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def cpu_s(self) -> float:
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Tab:
    """A page in the browser, with everything that it must not do written down."""

    def __init__(self, context: BrowserContext, url: str, allowed: tuple[str, ...]) -> None:
        self.context = context
        self.origin = url.partition("/#")[0]
        self.wrong: list[str] = []
        self.allowed: tuple[str, ...] = allowed
        self.page: Page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("request", self._request)
        self.page.goto(url)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in self.allowed):
            self.wrong.append(f"{message.type} {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")

    def __call__(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, script: str, timeout_s: float = 20.0) -> Any:
        return eventually(lambda: self(script), timeout_s, 0.1)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def ready(self) -> Tab:
        self.until("Boolean(globalThis.grapevine?.model.total && grapevine.model.overlay)")
        return self

    def row(self, broker: str) -> list[Any]:
        """What the page knows of a broker now."""
        found: list[Any] = self(f"grapevine.model.row(grapevine.model.byName.get({json.dumps(broker)}).i)")
        return found

    def state(self, broker: str) -> str:
        return str(self(f"grapevine.model.byName.get({json.dumps(broker)})?.state ?? ''"))

    def shot(self, name: str) -> Path:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")
        return SHOTS / f"{name}.png"

    def clean(self) -> None:
        assert not self.wrong, self.wrong
        self.page.close()


class Tabs:
    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.allowed: tuple[str, ...] = ()  # words of complaints that a story expects
        self.open: list[Tab] = []
        self._contexts: list[BrowserContext] = []

    def __call__(self, url: str, width: int = 1600, height: int = 900, **options: Any) -> Tab:
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        self._contexts.append(context)
        tab = Tab(context, url, self.allowed)
        self.open.append(tab)
        return tab

    def close(self) -> None:
        wrong = [text for tab in self.open for text in tab.wrong]
        for context in self._contexts:
            context.close()
        assert not wrong, wrong


def pubctl(keys: Path, broker: str, *words: str) -> Any:
    environment = {**os.environ, "GRAPEVINE_KEYS": str(keys)}
    done = subprocess.run(
        [sys.executable, "-m", "tools.pubctl.main", "-b", broker, "-o", "json", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=60,
    )
    return json.loads(done.stdout)


Waiting = Callable[[], Any]
