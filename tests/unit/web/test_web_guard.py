"""Who gets in and who does not, over the real application and without a browser; the stream's memory."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tomllib
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.web.pulses import Script
from tests.unit.web.test_web_engine import TREE, three
from tools.web.engine import Engine
from tools.web.filter_trial import near, tried
from tools.web.guard import HEADERS, Guard, hostname, same_place
from tools.web.model import Event, schemas
from tools.web.server import STATIC, Page
from tools.web.stream import KEPT, Stream

HERE = "127.0.0.1:8470"
ROOT = Path(__file__).resolve().parents[3]


class Caller:
    """Speaks to the application as a server would."""

    def __init__(self, actions: bool = False) -> None:
        self.engine = Engine(Script(three(0), reports=TREE), 1.0)
        self.engine.look(1.0)
        self.page = Page(self.engine, Guard(("lab.example",), "secret"), actions)
        self.application = self.page.application()
        self.cookie = self.csrf = ""

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        host: str = HERE,
        drop: tuple[str, ...] = (),
        **more: str,
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {"host": host, "cookie": f"grapevine_session={self.cookie}"}
        if method == "POST":
            headers |= {"origin": f"http://{host}", "content-type": "application/json"}
            headers["x-grapevine-csrf"] = self.csrf
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        for name in drop:
            headers.pop(name, None)
        content = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers["content-length"] = str(len(content))
        return asyncio.run(self._call(method, path, headers, content))

    async def _call(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        url, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": url,
            "raw_path": url.encode(), "query_string": query.encode(), "root_path": "", "scheme": "http",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8470),
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        waiting = [body]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()  # nobody hangs up
            waiting.pop()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        self.page._asking = asyncio.Lock()
        await self.application(scope, receive, send)
        answered = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return sent[0]["status"], answered, b"".join(m.get("body", b"") for m in sent[1:])

    def enter(self) -> Caller:
        status, headers, body = self("POST", "/session", {"token": "secret"})
        assert status == 200
        self.cookie = headers["set-cookie"].partition("=")[2].partition(";")[0]
        self.csrf = json.loads(body)["csrf"]
        return self


@pytest.fixture
def caller() -> Caller:
    return Caller().enter()


def test_with_everything_right_one_gets_in(caller: Caller) -> None:
    status, headers, body = caller("GET", "/api/v1/overlay")
    assert status == 200
    assert json.loads(body)["schema"] == "grapevine.web.overlay/1"
    for name, value in HEADERS.items():
        assert headers[name] == value
    assert caller("POST", "/api/v1/filter", {"filter": "a > 1"})[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8470", "", "127.0.0.1.evil.example", "localhost.evil:1"]
)
@pytest.mark.parametrize("path", ["/api/v1/overlay", "/api/v1/stream", "/", "/main.js", "/session"])
def test_a_foreign_host_is_refused_everywhere(caller: Caller, host: str, path: str) -> None:
    method = "POST" if path == "/session" else "GET"
    assert caller(method, path, {"token": "secret"} if method == "POST" else None, host=host)[0] == 421


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8470", "localhost:1", "[::1]:8470", "lab.example:443", "LAB.EXAMPLE"]
)
def test_own_names_are_let_in(caller: Caller, host: str) -> None:
    assert caller("GET", "/api/v1/overlay", host=host)[0] == 200


def test_without_a_session_nothing_is_told() -> None:
    caller = Caller()
    for path in ("overlay", "stream", "series?of=total:in_s", "clients", "broker/b1", "picture"):
        assert caller("GET", f"/api/v1/{path}")[0] == 401
    assert caller("POST", "/session", {"token": "wrong"})[0] == 401
    assert caller("POST", "/session", {"token": ""})[0] == 401
    caller.cookie = "made-up"
    assert caller("GET", "/api/v1/overlay")[0] == 401


def test_the_cookie_is_for_this_page_alone() -> None:
    _, headers, _ = Caller()("POST", "/session", {"token": "secret"})
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]
    assert "Secure" in Guard(secure=True).cookie("x")


def test_a_post_must_be_the_pages_own(caller: Caller) -> None:
    body = {"filter": "a > 1"}
    assert caller("POST", "/api/v1/filter", body, origin="http://evil.example")[0] == 403
    assert caller("POST", "/api/v1/filter", body, origin="null")[0] == 403
    assert caller("POST", "/api/v1/filter", body, drop=("origin",))[0] == 403
    assert caller("POST", "/api/v1/filter", body, drop=("x-grapevine-csrf",))[0] == 403
    assert caller("POST", "/api/v1/filter", body, x_grapevine_csrf="guess")[0] == 403
    assert caller("POST", "/api/v1/filter", body, content_type="text/plain")[0] == 415
    assert caller("POST", "/api/v1/filter", b"x" * 70_000)[0] == 413
    assert caller("POST", "/api/v1/filter", b"[1]")[0] == 400


def test_actions_are_refused_without_the_word_for_them(caller: Caller) -> None:
    for name in ("drain", "move", "strategy", "relocate", "reload"):
        status, _, body = caller(
            "POST", f"/api/v1/actions/{name}", {"broker": "b1", "dry_run": False, "typed": "b1"}
        )
        assert (status, "--actions" in json.loads(body)["error"]) == (403, True)
    assert [verb for verb, _ in caller.engine.source.asked if verb != "relocate.show"] == []  # type: ignore[attr-defined]


def test_an_action_needs_the_name_typed() -> None:
    caller = Caller(actions=True).enter()
    status, _, body = caller(
        "POST", "/api/v1/actions/drain", {"broker": "b1", "dry_run": False, "typed": "b2"}
    )
    assert (status, "type b1" in json.loads(body)["error"]) == (400, True)
    assert caller("POST", "/api/v1/actions/explode", {"broker": "b1"})[0] == 404


def test_files_outside_are_not_served(caller: Caller) -> None:
    for path in (
        "/../server.py",
        "/..%2fserver.py",
        "/vendor/../../server.py",
        "/vendor/vendor.toml",
        "/nothing.js",
    ):
        assert caller("GET", path)[0] == 404
    assert caller("GET", "/vendor/uPlot.iife.min.js")[0] == 200


def test_traces_are_limited(caller: Caller) -> None:
    codes = [caller("POST", "/api/v1/trace", {"attributes": {"x": 1}})[0] for _ in range(7)]
    assert codes[:5] == [404] * 5 and codes[5:] == [429, 429]
    assert Caller().enter()("POST", "/api/v1/trace", {"attributes": []})[0] == 400


def test_series_and_picture(caller: Caller) -> None:
    assert caller("GET", "/api/v1/series?of=b:0:in_s&range=60")[0] == 200
    assert caller("GET", "/api/v1/series?of=nothing")[0] == 404
    status, headers, body = caller("GET", "/api/v1/picture")
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert b"<svg" in body and b"b3" in body


def test_names_of_hosts() -> None:
    assert [hostname(h) for h in ("a.b:80", "[::1]:80", "::1", "A.b")] == ["a.b", "::1", "::1", "a.b"]
    assert (
        same_place("http://a:1", "a:1")
        and not same_place("http://a:1", "a:2")
        and not same_place("a:1", "a:1")
    )


# --- the stream -------------------------------------------------------------------------------------


def event(n: int) -> Event:
    return Event(n, 0.0, "b1", "k", "info", "")


async def read(stream: Stream, since: int | None, count: int) -> list[str]:
    found: list[str] = []
    async with aclosing(stream.read(since, lambda: [event(0), event(0)])) as pieces:
        async for piece in pieces:
            found += [part for part in piece.decode().split("\n\n") if part and not part.startswith("retry")]
            if len(found) >= count:
                break
    return found


def numbers(parts: list[str]) -> list[int]:
    return [json.loads(part.partition("data: ")[2])["n"] for part in parts]


def test_a_stream_goes_on_where_it_was_cut() -> None:
    async def story() -> None:
        stream = Stream()
        stream.tell([event(n) for n in range(1, 11)])
        assert numbers(await read(stream, 4, 7)) == [0, *range(5, 11)]  # hello first
        assert numbers(await read(stream, None, 2)) == [0, 0]  # new: what is known now
        assert numbers(await read(stream, 99, 2)) == [0, 0]  # of another process
        stream.tell([event(n) for n in range(11, 11 + KEPT)])
        assert numbers(await read(stream, 4, 2)) == [0, 0]  # too long ago
        assert stream.readers == 0

    asyncio.run(story())


# --- filters, contract, vendor ------------------------------------------------------------------------


def test_a_filter_is_tried() -> None:
    assert tried("volume >", None)["error"]["position"] == 8
    found = tried("class = 'STOCK' and volume > 1000", {"class": "STOCK", "volume": 5})
    assert (found["matches"], found["why"]) == (False, ["volume > 1000"])
    listed = [
        {"subscription": "b1/1", "filter": f}
        for f in ("volume > 1000", "volume < 9", "x = 1 and y = 2", "long...")
    ]
    rows = near(listed, {"volume": 5})
    assert [(r["filter"], r["matches"], r["why"]) for r in rows] == [
        ("volume < 9", True, ""),
        ("volume > 1000", False, "volume > 1000"),
    ]


def test_the_committed_schemas_are_those_of_the_code() -> None:
    """`python -m tools.web.contract` writes them."""
    for name, schema in schemas().items():
        assert json.loads((ROOT / "docs/schema" / f"{name}.json").read_text()) == schema, name


def test_what_is_vendored_is_what_it_says() -> None:
    vendor = STATIC / "vendor"
    listed = tomllib.loads((vendor / "vendor.toml").read_text())
    files = {name: digest for package in listed.values() for name, digest in package["files"].items()}
    assert set(files) == {path.name for path in vendor.iterdir()} - {"vendor.toml"}
    for name, digest in files.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    assert "MIT" in (vendor / "uPlot.LICENSE.txt").read_text()


def test_the_page_names_no_other_place() -> None:
    for path in STATIC.glob("*"):
        if path.suffix in (".js", ".html", ".css"):
            text = path.read_text()
            assert (
                "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
            ), path.name
            assert "innerHTML" not in text and "insertAdjacentHTML" not in text, path.name
