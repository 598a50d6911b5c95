"""What a request is limited by: a key in Redis, and the rule that holds for it."""

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import quote

# Without "concurrency": that wants a lease ID and a release at the end of the request, and a
# denial of it must not be remembered, since a release can come at any time.
Algo = Literal["sliding", "bucket", "leaky", "fixed", "counter"]

MAX_PART = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of RL.ACQUIREX. It is not checked here: the server does, and says what is wrong."""

    window: str
    """`500ms`, `60s`, `5m`, `1h`, `1d`. A bare number is milliseconds."""
    limit: int
    algo: Algo
    burst: int | None = None
    cost: int = 1
    name: str | None = None
    """For RL.POLICY and the counters in INFO rl. By default `route.dimension`."""

    def args(self) -> list[str | int]:
        args: list[str | int] = ["WINDOW", self.window, "LIMIT", self.limit, "ALGO", self.algo]
        if self.burst is not None:
            args += ["BURST", self.burst]
        if self.cost != 1:
            args += ["COST", self.cost]
        if self.name is not None:
            args += ["NAME", self.name]
        return args


class Limit(NamedTuple):
    """One of the limits that a request must pass."""

    dimension: str
    key: str
    rule: Rule


Limits = tuple[Limit, ...]


def key_of(route: str, dimension: str, value: str | None = None) -> str:
    """The key of a limit. All keys of a route share its hash tag, hence a slot of a cluster.

    >>> key_of("login", "ip", "192.0.2.7")
    'rl:{login}:ip:192.0.2.7'
    >>> key_of("login", "user", "{x}:y")
    'rl:{login}:user:%7Bx%7D%3Ay'
    >>> key_of("login", "all")
    'rl:{login}:all'
    """
    key = f"rl:{{{route}}}:{dimension}"
    return key if value is None else f"{key}:{_part(value)}"


def _part(value: str) -> str:
    """Users choose this text: they get neither braces nor a key of a megabyte."""
    if len(value) <= MAX_PART:
        part = quote(value, safe="@", errors="surrogatepass")
        if len(part) <= MAX_PART:
            return part
    # quote() never leaves a "#": nobody can name somebody else's hash.
    return "#" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
