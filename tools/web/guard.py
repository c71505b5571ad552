"""Who may talk to the page process: the right Host, a session, and for changes the right Origin and a word
that only our own page knows.

- Host must be an address, localhost or a name that was given: else a foreign name that points here (DNS
  rebinding) could read everything. 421.
- The token is in the URL's fragment, which no server or log sees; the page posts it to /session and gets a
  cookie that scripts cannot read and other sites do not send.
- POST: Origin equal to Host, JSON, the CSRF word of this session, at most 64 kB.
- Every answer forbids scripts of others, frames, sniffing, referrers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hmac import compare_digest
from ipaddress import ip_address
from time import monotonic
from typing import NamedTuple

SESSION_S = 12 * 3600.0
SESSIONS_MAX = 256
BODY_BYTES = 64 * 1024
COOKIE = "grapevine_session"
CSRF = "x-grapevine-csrf"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Session(NamedTuple):
    csrf: str
    until: float


class Guard:
    def __init__(self, hosts: Iterable[str] = (), token: str = "", secure: bool = False) -> None:
        self.token = token or secrets.token_urlsafe(16)
        self.secure = secure
        self._hosts = {host.lower() for host in hosts}
        self._sessions: dict[str, Session] = {}

    # --- every request ------------------------------------------------------------------------------

    def check_host(self, host: str) -> None:
        name = hostname(host)
        if not (name == "localhost" or name in self._hosts or is_address(name)):
            raise Refused(421, f"{name or 'no host'} is not a name of this page: start it with --host {name}")

    def check_post(self, host: str, origin: str, content_type: str, length: int) -> None:
        if not same_place(origin, host):
            raise Refused(403, "a change must come from this page itself (Origin)")
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "send application/json")
        if length > BODY_BYTES:
            raise Refused(413, f"at most {BODY_BYTES} bytes")

    # --- sessions -----------------------------------------------------------------------------------

    def open(self, token: str) -> tuple[str, str]:
        """A session for who has the token: its cookie and its CSRF word."""
        if not compare_digest(token.encode(), self.token.encode()):
            raise Refused(401, "this is not the token that `pubctl web` printed: open its whole URL")
        now = monotonic()
        self._sessions = {key: s for key, s in self._sessions.items() if s.until > now}
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        key, csrf = secrets.token_urlsafe(24), secrets.token_urlsafe(18)
        self._sessions[key] = Session(csrf, now + SESSION_S)
        return key, csrf

    def session(self, cookie: str) -> Session:
        found = self._sessions.get(cookie)
        if found is None or found.until <= monotonic():
            raise Refused(401, "no session: open the URL that `pubctl web` printed")
        return found

    def check_csrf(self, session: Session, word: str) -> None:
        if not compare_digest(session.csrf.encode(), word.encode()):
            raise Refused(403, "the page's own word is missing (X-Grapevine-CSRF)")

    def cookie(self, key: str) -> str:
        secure = "; Secure" if self.secure else ""
        return f"{COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/; Max-Age={int(SESSION_S)}{secure}"


def hostname(host: str) -> str:
    """Without the port; brackets of an IPv6 address go too."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def same_place(origin: str, host: str) -> bool:
    scheme, separator, place = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and place.lower() == host.strip().lower()
