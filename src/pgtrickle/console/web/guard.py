"""Who may look and act: a token, the name of the host, the page that a request came from, its rate.

A browser sends what any page makes it send.  So a request must name a host that we answer for
(another name may lead here: DNS rebinding), carry a cookie that no other site's page gets sent
(SameSite), and, to do anything, a header that only a page of ours can read and send.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "pgtrickle_console"
CSRF_HEADER: Final = "x-pgtrickle-csrf"
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_CALLERS = 1000  # whose rates are remembered


@dataclass(slots=True)
class Rate:
    """How often each caller may do something: so many at once, and so many a second."""

    burst: float
    per_second: float
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allows(self, caller: str, now: float | None = None) -> bool:
        """Take one, and return whether there was one to take.

        >>> rate = Rate(burst=2, per_second=1)
        >>> [rate.allows("a", now) for now in (0, 0, 0, 1, 1)], rate.allows("b", 1)
        ([True, True, False, True, False], True)
        """
        now = time.monotonic() if now is None else now
        left, at = self._left.pop(caller, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.per_second)
        allowed = left >= 1
        self._left[caller] = (left - allowed, now)
        while len(self._left) > _CALLERS:
            self._left.popitem(last=False)
        return allowed


@dataclass(slots=True)
class Guard:
    """Decides on every request; holds no password of the database."""

    token: str  # empty: everybody who reaches the port may look
    hosts: frozenset[str]  # names by which we may be called, without the port
    read_only: bool = False
    proxies: tuple[Network, ...] = ()  # whose headers are believed
    logins: Rate = field(default_factory=lambda: Rate(burst=5, per_second=0.2))
    requests: Rate = field(default_factory=lambda: Rate(burst=60, per_second=20))
    deeds: Rate = field(default_factory=lambda: Rate(burst=10, per_second=0.5))
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def cookie(self) -> str:
        """What a browser that has shown the token keeps; it is not the token, and ends with us."""
        return self._sign("cookie")

    @property
    def csrf(self) -> str:
        """What a page of ours sends with each deed."""
        return self._sign("csrf")

    def _sign(self, purpose: str) -> str:
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).hexdigest()

    def knows_host(self, request: Request) -> bool:
        """Whether the request calls us by a name of ours."""
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.strip("[]").lower() in self.hosts

    def takes_token(self, given: str) -> bool:
        """Whether this is the token; takes as long for a wrong one."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def may_look(self, request: Request) -> bool:
        """Whether the request may see anything: by the cookie; scripts send the token itself."""
        if not self.token:
            return True
        given = request.cookies.get(COOKIE, "")
        if hmac.compare_digest(given.encode(), self.cookie.encode()):
            return True
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.takes_token(bearer.strip())

    def may_act(self, request: Request, csrf: str) -> bool:
        """Whether the visitor's own page sends the request, not another that uses its cookie."""
        given = request.headers.get(CSRF_HEADER, "")
        return self.is_from_here(request) and hmac.compare_digest(given.encode(), csrf.encode())

    def is_from_here(self, request: Request) -> bool:
        """Whether no page of another site sends the request, as far as its browser tells."""
        if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return False
        origin = request.headers.get("origin")
        return origin is None or origin.partition("://")[2] == request.headers.get("host", "")

    def is_from_proxy(self, request: Request) -> bool:
        """Whether a proxy of ours sends the request: by the address of the connection itself."""
        peer = _address(request.client.host if request.client else "")
        return peer is not None and any(peer in one for one in self.proxies)

    def caller(self, request: Request) -> str:
        """Return whose rates a request uses up; behind a proxy, whom the proxy has heard."""
        heard = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        if heard and self.is_from_proxy(request):
            return heard
        return request.client.host if request.client else ""

    def is_private(self, request: Request) -> bool:
        """Whether nobody on the network reads what is sent: not from another machine, but a proxy.

        What a proxy is sent, its own TLS protects.
        """
        peer = _address(request.client.host if request.client else "")
        return (peer is not None and peer.is_loopback) or self.is_from_proxy(request)

    def leave_cookie(self, answer: Response, request: Request, value: str) -> None:
        """Leave the cookie by which a browser is known: not for scripts, not for other sites."""
        told = request.headers.get("x-forwarded-proto", "") if self.is_from_proxy(request) else ""
        secure = "https" in {request.url.scheme, told}
        answer.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=secure, path="/")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def new_token() -> str:
    """Make a token that nobody guesses."""
    return secrets.token_urlsafe(24)
