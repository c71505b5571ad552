"""The page process: an HTTP server beside one engine that looks at the overlay each interval.

Everything under /api/v1 needs a session (guard.py). Questions that reach a broker are limited: one at a time
and five traces a second. Static files are the page itself; nothing is built and nothing is fetched elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from grapevine import __version__
from grapevine.filters import check_attributes
from tools.pubctl.answers import clean, names
from tools.pubctl.channel import Argument, Reply
from tools.pubctl.failure import NOT_ALLOWED, NOT_FOUND, TIMEOUT, UNREACHABLE, USAGE, Failure
from tools.pubctl.picture import svg
from tools.web.actions import Actions
from tools.web.drawing import graph_of
from tools.web.engine import Engine
from tools.web.filter_trial import near, tried
from tools.web.guard import BODY_BYTES, COOKIE, CSRF, HEADERS, Guard, Refused, Session
from tools.web.history import POINTS
from tools.web.model import Hello, Series, SourceState
from tools.web.stream import STREAMS_MAX, Stream

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
KINDS |= {".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
STATUS = {USAGE: 400, NOT_FOUND: 404, NOT_ALLOWED: 403, UNREACHABLE: 502, TIMEOUT: 504}
TRACES_S = 5
SNAPSHOT_EVENTS = 200
Handler = Callable[[Request, Session], Awaitable[Response]]


def json(document: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")


def wrong(status: int, text: str) -> Response:
    return json({"error": text}, status)


class Page:
    def __init__(self, engine: Engine, guard: Guard, actions: bool) -> None:
        self.engine = engine
        self.guard = guard
        self.actions = Actions(engine, actions)
        self.allowed = actions
        self.stream = Stream()
        self.stopping = False
        self._asking = asyncio.Lock()
        self._traces: deque[float] = deque(maxlen=TRACES_S)

    # --- the loop -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """A look each interval; a slow one shifts the next, it does not pile up."""
        engine = self.engine
        due = time.monotonic()
        while not self.stopping:
            told = await asyncio.to_thread(engine.look, time.time())
            self.stream.tell(told)
            due = max(due + engine.every_s, time.monotonic() + 0.05 * engine.every_s)
            if engine.source.kind == "broker":
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            elif told and isinstance(told[-1], SourceState) and told[-1].state in ("ended", "lost"):
                await asyncio.sleep(engine.every_s)

    def snapshot(self, session: Session) -> list[object]:
        engine, now = self.engine, time.time()
        role = "admin" if self.allowed else "observer"
        hello = Hello(
            __version__,
            role,
            session.csrf,
            engine.every_s,
            POINTS * engine.every_s,
            now,
            engine.source.kind,
            self.allowed,
        )
        first: list[object] = [hello, engine.state]
        if (pulse := engine.whole()) is not None:
            first += [engine.overlay(), pulse, *list(engine.events)[-SNAPSHOT_EVENTS:]]
        return first

    # --- reads --------------------------------------------------------------------------------------

    async def events(self, request: Request, session: Session) -> Response:
        if self.stream.readers >= STREAMS_MAX:
            return wrong(
                503, f"{STREAMS_MAX} pages are open already: close one, tabs of one browser share theirs"
            )
        given = request.headers.get("last-event-id", "")
        since = int(given) if given.isdigit() else None
        body = self.stream.read(since, lambda: self.snapshot(session))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(body, media_type="text/event-stream", headers=headers)

    async def overlay(self, request: Request, session: Session) -> Response:
        return json(self.engine.overlay())

    async def series(self, request: Request, session: Session) -> Response:
        of = request.query_params.get("of", "")
        try:
            range_s = float(request.query_params.get("range", "600"))
            times, values = self.engine.history.series(of, range_s)
        except (KeyError, ValueError):
            return wrong(404, f"no series {of!r}: b:NUMBER:in_s, l:NUMBER:ab_s, total:delivered_s")
        return json(Series(of, self.engine.every_s, [round(t, 3) for t in times], values))

    async def broker(self, request: Request, session: Session) -> Response:
        name = request.path_params["name"]
        info = await self._ask("broker.info", broker=name)
        links = await self._ask("link.ls", broker=name)
        clients = await self._ask("client.ls", broker=name, limit=200)
        return json(
            {
                "schema": "grapevine.web.broker/1",
                "broker": rows(info)[0],
                "links": rows(links)[0].get("rows", []),
                "clients": rows(clients)[0].get("rows", []),
                "client_count": rows(clients)[0].get("total", 0),
            }
        )

    async def link(self, request: Request, session: Session) -> Response:
        one, other = request.path_params["a"], request.path_params["b"]
        found = {}
        for here, there in ((one, other), (other, one)):
            with contextlib.suppress(Failure):
                reply = await self._ask("link.ls", broker=here)
                found[here] = [row for row in rows(reply)[0].get("rows", []) if row["name"] == there]
        if not any(found.values()):
            return wrong(404, f"no link between {one} and {other} is known to either")
        return json({"schema": "grapevine.web.link/1", "ends": found})

    async def client(self, request: Request, session: Session) -> Response:
        reply = await self._ask("client.info", name=request.path_params["name"])
        return json({"schema": "grapevine.web.client/1", "at": rows(reply)})

    async def clients(self, request: Request, session: Session) -> Response:
        state = request.query_params.get("state", "")
        found = rows(await self._ask("client.ls", limit=1000))
        listed = [{"broker": r["name"], **row} for r in found for row in r.get("rows", [])]
        if state == "slow":
            listed = [row for row in listed if row["state"] == "slow" or row["dropped"]]
        return json(
            {
                "schema": "grapevine.web.clients/1",
                "rows": listed,
                "total": sum(r.get("total", 0) for r in found),
            }
        )

    async def subs(self, request: Request, session: Session) -> Response:
        query = request.query_params
        wanted, after = query.get("q", "").lower(), query.get("after", "")
        limit = min(int(query.get("limit", "100") or 100), 1000)
        found = rows(await self._ask("subs.ls", broker=query.get("broker") or None, limit=5000))
        listed = [
            {"broker": r["name"], **row}
            for r in found
            for row in r.get("rows", [])
            if wanted in f"{row['filter']} {row.get('client', '')} {row['subscription']}".lower()
        ]
        listed = [
            row for row in sorted(listed, key=lambda row: row["subscription"]) if row["subscription"] > after
        ]
        return json({"schema": "grapevine.web.subs/1", "rows": listed[:limit], "total": len(listed)})

    async def picture(self, request: Request, session: Session) -> Response:
        """The same drawing as `pubctl topo show -o svg`."""
        drawn = svg(
            graph_of(self.engine.members, self.engine.rates), "grapevine overlay", self.engine.members.asked
        )
        return Response(drawn, media_type="image/svg+xml")

    async def relocate(self, request: Request, session: Session) -> Response:
        reply = await self._ask("relocate.show")
        return json({"schema": "grapevine.web.relocate/1", **reply.body})

    # --- posts --------------------------------------------------------------------------------------

    async def trace(self, request: Request, session: Session) -> Response:
        now = time.monotonic()
        if len(self._traces) == TRACES_S and now - self._traces[0] < 1.0:
            return wrong(429, f"at most {TRACES_S} traces a second")
        self._traces.append(now)
        given = await self._body(request)
        attributes = given.get("attributes")
        if not isinstance(attributes, dict) or not attributes:
            return wrong(400, "attributes: an object of names and values")
        text = msgspec.json.encode(attributes).decode()
        reply = await self._ask("trace", attributes=text, client=given.get("client") or None)
        path = [clean(row, names(reply.body["path"], "broker")) for row in reply.body["path"]]
        return json(
            {
                "schema": "grapevine.web.trace/1",
                "path": path,
                "missing": reply.missing,
                "asked": reply.body["asked"],
            }
        )

    async def filter(self, request: Request, session: Session) -> Response:
        given = await self._body(request)
        content = given.get("attributes") or None
        try:
            check_attributes(content or {})
        except ValueError as error:
            return wrong(400, f"attributes: {error}")
        found = tried(str(given.get("filter", "")), content)
        if content is not None and given.get("known"):
            reply = await self._ask("subs.ls", limit=1000)
            listed = [{"broker": r["name"], **row} for r in rows(reply) for row in r.get("rows", [])]
            found["near"] = near(listed, content)
        return json({"schema": "grapevine.web.filter/1", **found})

    async def act(self, request: Request, session: Session) -> Response:
        name = request.path_params["name"]
        given = await self._body(request)
        outcome, events = await asyncio.to_thread(self.actions.act, name, given, time.time())
        self.stream.tell(list(events))
        return json({"schema": "grapevine.web.action/1", **outcome})

    async def dismiss(self, request: Request, session: Session) -> Response:
        """An absent broker goes from the picture; nothing is done to it."""
        given = await self._body(request)
        if not self.engine.members.forget(str(given.get("broker", ""))):
            return wrong(404, "only a broker that is gone or has left can be dismissed")
        self.stream.tell([self.engine.overlay()])
        return json({"ok": True})

    # --- asking -------------------------------------------------------------------------------------

    async def _ask(self, verb: str, **arguments: Argument) -> Reply:
        async with self._asking:
            return await asyncio.to_thread(lambda: self.engine.source.ask(verb, **arguments))

    async def _body(self, request: Request) -> dict[str, Any]:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES:
                raise Refused(413, f"at most {BODY_BYTES} bytes")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Refused(400, "the body is no JSON object") from None

    # --- the outside --------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """The token of the URL's fragment for a cookie."""
        try:
            self.guard.check_host(request.headers.get("host", ""))
            self._check_post(request)
            given = await self._body(request)
            key, csrf = self.guard.open(str(given.get("token", "")))
        except Refused as refused:
            return secured(wrong(refused.status, str(refused)))
        answer = json({"csrf": csrf})
        answer.headers["set-cookie"] = self.guard.cookie(key)
        return secured(answer)

    def _check_post(self, request: Request) -> None:
        headers = request.headers
        length = headers.get("content-length", "0")
        self.guard.check_post(
            headers.get("host", ""),
            headers.get("origin", ""),
            headers.get("content-type", ""),
            int(length) if length.isdigit() else BODY_BYTES + 1,
        )

    def guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                self.guard.check_host(request.headers.get("host", ""))
                session = self.guard.session(request.cookies.get(COOKIE, ""))
                if request.method != "GET":
                    self._check_post(request)
                    self.guard.check_csrf(session, request.headers.get(CSRF, ""))
                return secured(await handler(request, session))
            except Refused as refused:
                return secured(wrong(refused.status, str(refused)))
            except Failure as failure:
                return secured(wrong(STATUS.get(failure.code, 500), str(failure)))

        return answer

    async def static(self, request: Request) -> Response:
        try:
            self.guard.check_host(request.headers.get("host", ""))
        except Refused as refused:
            return secured(wrong(refused.status, str(refused)))
        name = request.path_params.get("path", "") or "index.html"
        path = (STATIC / name).resolve()
        if not path.is_relative_to(STATIC) or path.suffix not in KINDS or not path.is_file():
            return secured(wrong(404, f"no {name}"))
        answer = Response(path.read_bytes(), media_type=KINDS[path.suffix])
        answer.headers["cache-control"] = "no-cache"
        return secured(answer)

    def routes(self) -> list[Route]:
        api = "/api/v1/"
        reads: dict[str, Handler] = {
            "stream": self.events,
            "overlay": self.overlay,
            "series": self.series,
            "broker/{name}": self.broker,
            "link/{a}/{b}": self.link,
            "client/{name}": self.client,
            "clients": self.clients,
            "subs": self.subs,
            "relocate": self.relocate,
            "picture": self.picture,
        }
        posts: dict[str, Handler] = {
            "trace": self.trace,
            "filter": self.filter,
            "actions/{name}": self.act,
            "dismiss": self.dismiss,
        }
        made = [Route(api + path, self.guarded(handler)) for path, handler in reads.items()]
        made += [
            Route(api + path, self.guarded(handler), methods=["POST"]) for path, handler in posts.items()
        ]
        made.append(Route("/session", self.session, methods=["POST"]))
        return [*made, Route("/", self.static), Route("/{path:path}", self.static)]

    def application(self) -> Starlette:
        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            task = asyncio.create_task(self.run())
            yield
            self.stopping = True
            self.stream.end()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self.engine.source.close()

        return Starlette(routes=list(self.routes()), lifespan=lifespan)


def secured(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers[name] = value
    return response


def rows(reply: Reply) -> list[dict[str, Any]]:
    """One report per broker, without the numbers that JavaScript would round."""
    found: list[dict[str, Any]] = reply.body.get("brokers", [])
    return [clean(report, names(found)) for report in found] or [{}]
