"""The FastAPI side: a dependency for each route, and the headers of its answers."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limiter import Limiter
from .rules import Limit, Rule, key_of
from .store import Away

_HEADERS = "ratelimit.headers"
_WORD = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a route counts by: everything together, or each value of `by` on its own. A request
    for which `by` answers None is not counted in this dimension."""

    name: str
    rule: Rule
    by: Callable[[Request], str | None] | None = None

    def limit(self, route: str, request: Request) -> Limit | None:
        value = self.by(request) if self.by else None
        if self.by and value is None:
            return None
        return Limit(self.name, key_of(route, self.name, value), self.rule)


def by_ip(request: Request) -> str:
    """The client's address, as the server saw it or took it from a trusted proxy. Of an IPv6
    address its /64: that is what one customer gets, and can choose from freely."""
    host = request.client.host if request.client else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class RateLimit:
    """`Depends(RateLimit(limiter, Dimension(...), ...))` lets a request pass, or raises."""

    def __init__(self, limiter: Limiter, *dimensions: Dimension) -> None:
        for word in (limiter.name, *(dimension.name for dimension in dimensions)):
            if not _WORD.fullmatch(word):
                raise ValueError(f"{word!r}: letters, digits, '_', '.' and '-' only")
        self.name = limiter.name
        self._limiter = limiter
        self._dimensions = [
            replace(d, rule=replace(d.rule, name=d.rule.name or f"{limiter.name}.{d.name}"))
            for d in dimensions
        ]

    async def __call__(self, request: Request) -> None:
        found = [d.limit(self.name, request) for d in self._dimensions]
        limits = tuple(limit for limit in found if limit is not None)
        if not limits:
            return
        try:
            decision = await self._limiter.acquire(limits)
        except Away:
            if self._limiter.on_away == "open":
                return
            raise HTTPException(503, headers={"Retry-After": "1"}) from None
        request.scope[_HEADERS] += decision.headers().items()
        if not decision.granted:
            raise RateLimited(decision.limits[decision.binding].dimension)


class RateLimited(HTTPException):
    """A refusal. Its headers are those of every answer: the middleware adds them."""

    def __init__(self, dimension: str) -> None:
        super().__init__(429)
        self.dimension = dimension


def install(app: FastAPI) -> None:
    """To be called once for an application that uses `RateLimit`."""
    app.add_middleware(_Headers)
    app.add_exception_handler(RateLimited, _problem)


class _Headers:
    """Adds the headers to whatever the route answers. A dependency could set them on FastAPI's
    `Response`, but they would be lost if the route raises or returns a response of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: list[tuple[str, str]] = []
        scope[_HEADERS] = headers

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in headers:
                    MutableHeaders(scope=message).append(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _problem(_request: Request, error: Exception) -> JSONResponse:
    """The problem type that the draft defines for a refusal."""
    assert isinstance(error, RateLimited)
    problem = {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": error.status_code,
        "violated-policies": [error.dimension],
    }
    return JSONResponse(problem, error.status_code, media_type="application/problem+json")
