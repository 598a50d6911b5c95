"""What a request is limited by: a key in Redis, and the rule that holds for it."""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import quote

# Without "concurrency": that wants a lease ID and a release at the end of the request, and a
# denial of it must not be remembered, since a release can come at any time.
Algo = Literal["sliding", "bucket", "leaky", "fixed", "counter"]

MAX_PART = 64

# What keeps a word of a rule one word.
_WORDS = {
    "window": re.compile(r"[0-9]+[a-z]*"),
    "algo": re.compile(r"[a-z]+"),
    "name": re.compile(r"[A-Za-z0-9_.-]{1,64}"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of RL.ACQUIREX. Whether its numbers make sense is for the server to say.

    All rules of a call are one argument, in which white space begins the next word: a cost of
    "1 FORCE" would pass any limit. So only integers and single words get in."""

    window: str
    """`500ms`, `60s`, `5m`, `1h`, `1d`. A bare number is milliseconds."""
    limit: int
    algo: Algo
    burst: int | None = None
    cost: int = 1
    name: str | None = None
    """For RL.POLICY and the counters in INFO rl. By default `route.dimension`."""

    def __post_init__(self) -> None:
        for option, value in self._options():
            word = _WORDS.get(option)
            fits = type(value) is str and word.fullmatch(value) if word else type(value) is int
            if not fits:
                raise ValueError(f"{option} cannot be {value!r}")

    def _options(self) -> list[tuple[str, str | int]]:
        """Always in this order: the server remembers strings that repeat."""
        options = ("window", "limit", "algo", "burst", "cost", "name")
        values = [(option, getattr(self, option)) for option in options]
        return [(option, value) for option, value in values if value is not None]

    def text(self) -> str:
        return " ".join(f"{option.upper()} {value}" for option, value in self._options())


class Limit(NamedTuple):
    """One of the limits that a request must pass."""

    dimension: str
    key: str
    rule: Rule


Limits = tuple[Limit, ...]


def rules_of(limits: Limits, upto: int) -> str:
    """The last argument of a call, for up to so many acquisitions."""
    rules = " ".join(limit.rule.text() for limit in limits)
    return f"{rules} UPTO {upto} WITHKEYS" if upto > 1 else f"{rules} WITHKEYS"


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
