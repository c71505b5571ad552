"""/metrics, /healthz, /readyz and /api/v1/ over HTTP, for programs that watch brokers.

One thread serves one request after the other and only reads; the loop does nothing for it. What concerns the
whole overlay is asked through the control socket like pubctl does, and only verbs that change nothing can be
asked. Nobody is authenticated here: listen on the loopback, or behind something that asks who it is. Who asks
for another host than this one is turned away: a page of a stranger's could have a name that leads here.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_address
from socketserver import BaseRequestHandler, TCPServer
from time import monotonic
from urllib.parse import parse_qsl, urlsplit

import msgspec
import zmq

from daemon.errors import Failure
from daemon.logs import log
from daemon.metrics import CONTENT_TYPE, Metrics
from grapevine.wire.codec import decode, encode
from grapevine.wire.messages import Answer, Command
from overlay.administration.verbs import VERBS, Access

API = "/api/v1/"
REQUEST_S = 2.0  # a caller that has not said what it wants by then is let go
REQUEST_BYTES = 16_384
ANSWER_S = 5.0
BEAT_S = 1.0
SILENCE_S = 10.0  # of the loop, before the broker counts as ill
_HOST = re.compile(r"\nhost:([^\r\n]*)", re.IGNORECASE)
JSON, PLAIN = "application/json", "text/plain; charset=utf-8"
READABLE = tuple(verb for verb, access in VERBS.items() if access is Access.READ and verb != "config")
Reply = tuple[HTTPStatus, str, bytes]
STATUS = {
    "ok": HTTPStatus.OK,
    "partial": HTTPStatus.OK,
    "usage": HTTPStatus.BAD_REQUEST,
    "not-found": HTTPStatus.NOT_FOUND,
}


class Web(threading.Thread):
    def __init__(
        self,
        listen: str,
        metrics: Metrics,
        control: str,
        ready: Callable[[], str],
        hosts: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name="http", daemon=True)
        self._metrics = metrics
        self._control = control
        self._ready = ready  # empty: ready; else why not
        self._clock: Callable[[], float] = lambda: 0.0
        self._beat_at = 0.0
        own = (listen.rpartition(":")[0].strip("[]"), socket.gethostname(), "localhost", *hosts)
        self._hosts = {name.lower() for name in own if name}
        self._server = _bind(listen, self)
        host, port = self._server.server_address[:2]
        self.address = f"{host!s}:{port}"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.5)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- the loop's heart ---------------------------------------------------------------------------

    def listen_to(self, clock: Callable[[], float]) -> Callable[[float], float]:
        """What the loop calls at intervals to show that it turns."""
        self._clock, self._beat_at = clock, clock()
        return self._beat

    def _beat(self, now: float) -> float:
        self._beat_at = now
        return now + BEAT_S

    def is_asked(self, host: str) -> bool:
        """Whether this request is for us: by an address, by this machine's name, or by one that was given."""
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        name = name.strip("[]").rstrip(".").lower()
        try:
            ip_address(name)
        except ValueError:
            return name in self._hosts or name.partition(".")[0] == socket.gethostname().lower()
        return True

    # --- answers ------------------------------------------------------------------------------------

    def answer(self, target: str) -> Reply:
        url = urlsplit(target)
        if url.path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE, self._metrics.text().encode()
        if url.path == "/healthz":
            silent_s = self._clock() - self._beat_at
            return _verdict("" if silent_s < SILENCE_S else f"the loop has not turned for {silent_s:.0f} s")
        if url.path == "/readyz":
            return _verdict(self._ready())
        if url.path.startswith(API):
            return self._asked(url.path.removeprefix(API).strip("/").replace("/", "."), url.query)
        places = f"/metrics /healthz /readyz {API}"
        return HTTPStatus.NOT_FOUND, PLAIN, f"there is {places}\n".encode()

    def _asked(self, verb: str, query: str) -> Reply:
        if not verb:
            return (
                HTTPStatus.OK,
                JSON,
                msgspec.json.encode({"verbs": [API + v.replace(".", "/") for v in READABLE]}),
            )
        if verb not in READABLE:
            return _error(HTTPStatus.NOT_FOUND, f"no {verb}; {API} lists what can be asked")
        answer = self._ask(verb, {key: _plain(value) for key, value in parse_qsl(query)})
        if answer is None:
            return _error(HTTPStatus.GATEWAY_TIMEOUT, f"no answer within {ANSWER_S:g} s")
        status = STATUS.get(answer.outcome, HTTPStatus.INTERNAL_SERVER_ERROR)
        if status is not HTTPStatus.OK:
            return _error(status, answer.text)
        body = msgspec.json.decode(answer.body or b"{}")
        document = {"schema": f"grapevine.{verb}/1", "outcome": answer.outcome, **body}
        return status, JSON, msgspec.json.encode(document)

    def _ask(self, verb: str, arguments: dict[str, str | int | float | bool | None]) -> Answer | None:
        """Through the control socket: the loop sees one more administrator."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(self._control)
            dealer.send(encode(Command(1, verb, {"timeout_s": ANSWER_S * 0.9, **arguments})))
            if dealer.poll(int(ANSWER_S * 1000)):
                message = decode(dealer.recv())
                return message if isinstance(message, Answer) else None
            return None


class Handler(BaseRequestHandler):
    """A request and its answer, then good-bye. The library's own handler reads headers as if they were mail,
    which takes ten times as long as all the rest of a scrape; only the host matters here."""

    request: socket.socket
    web: Web

    def handle(self) -> None:
        words = self._request_line()
        if words is None:
            return
        method, target, host = words
        if host is not None and not self.web.is_asked(host):
            text = f"{host} is not this host: ask by its address, or name it in http.hosts\n"
            status, kind, body = HTTPStatus.MISDIRECTED_REQUEST, PLAIN, text.encode()
        else:
            status, kind, body = self._answer(method, target)
        head = f"HTTP/1.0 {status.value} {status.phrase}\r\nServer: grapevined\r\nContent-Type: {kind}\r\n"
        try:
            self.request.settimeout(REQUEST_S)
            self.request.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except OSError:
            pass  # it did not wait

    def _answer(self, method: str, target: str) -> Reply:
        if method != "GET":
            return HTTPStatus.NOT_IMPLEMENTED, PLAIN, b"only GET: nothing can be changed here\n"
        try:
            return self.web.answer(target)
        except Exception:
            log.exception("a request could not be answered: %s", target)
            return HTTPStatus.INTERNAL_SERVER_ERROR, PLAIN, b"see the broker's log\n"

    def _request_line(self) -> tuple[str, str, str | None] | None:
        """Method, target and the host asked for; the headers are read to their end, so that nothing unread
        resets the connection. None: it took too long, said too much, or speaks another language."""
        until, read = monotonic() + REQUEST_S, b""
        while b"\r\n\r\n" not in read:
            try:
                self.request.settimeout(max(until - monotonic(), 0.001))
                more = self.request.recv(REQUEST_BYTES)
            except OSError:
                return None
            read += more
            if not more or len(read) > REQUEST_BYTES:
                return None
        line, _, headers = read.decode("latin-1").partition("\r\n")
        words = line.split()
        found = _HOST.search("\n" + headers)
        host = None if found is None else found[1].strip()
        return (words[0], words[1], host) if len(words) == 3 and words[2].startswith("HTTP/") else None


class Server(TCPServer):
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("http: a connection broke", exc_info=True)


def _bind(listen: str, web: Web) -> TCPServer:
    host, _, port = listen.rpartition(":")
    server = type("BoundServer", (Server,), {"address_family": _family(host)})
    handler = type("BoundHandler", (Handler,), {"web": web})
    try:
        made: TCPServer = server((host.strip("[]"), int(port)), handler)
    except OSError as error:
        raise Failure(f"cannot listen on {listen}: {error.strerror}: change http.listen") from None
    return made


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _verdict(reason: str) -> Reply:
    if reason:
        return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, f"{reason}\n".encode()
    return HTTPStatus.OK, PLAIN, b"ok\n"


def _error(status: HTTPStatus, text: str) -> Reply:
    return status, JSON, msgspec.json.encode({"error": {"code": status.value, "message": text}})


def _plain(value: str) -> str | int | bool:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdigit() and len(value) < 10 else value
