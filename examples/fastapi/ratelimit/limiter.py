"""The limiter of one route: the deny cache first, then permits at hand, then Redis."""

import time
from typing import Literal

from .batches import Batches
from .breaker import Breaker
from .decision import Decision
from .deny_cache import DenyCache
from .rules import Limits
from .store import ANSWERS, Away, Busy, MemoryFull, Store

OnAway = Literal["open", "closed"]


class Limiter:
    """Knows nothing of HTTP. Each route has its own breaker: all its keys live on one node of a
    cluster, and another node may be fine."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        on_away: OnAway = "open",
        breaker_failures: int = 5,
        breaker_cooldown: float = 1.0,
        deny_cache: bool = True,
        batch: int = 1,
        batch_ttl: float = 0.1,
    ) -> None:
        self.name = name
        self.on_away = on_away
        self._store = store
        self._breaker = Breaker(breaker_failures, breaker_cooldown)
        self._denials = DenyCache() if deny_cache else None
        self._batches = Batches(self._ask, batch, batch_ttl) if batch > 1 else None

    async def acquire(self, limits: Limits) -> Decision:
        """Takes a permit from every limit, or from none. Raises `Away` if nobody can tell."""
        if self._denials is not None and (denial := self._denials.find(limits)) is not None:
            return denial
        try:
            return await (self._batches.take(limits) if self._batches else self._ask(limits))
        except Away as away:
            what = "passed unchecked" if self.on_away == "open" else "refused with 503"
            self._store.outages.note(self.name, what, str(away))
            raise

    async def _ask(self, limits: Limits, upto: int = 1) -> Decision:
        if not self._breaker.allows():
            raise Away(self._breaker.reason)
        asked_at = time.monotonic()
        try:
            reply = await self._store.acquire(limits, upto)
        except Busy:  # says nothing about Redis
            raise
        except (MemoryFull, *ANSWERS):
            # Redis is there. Its memory may be full, but that stops new limiters only.
            self._breaker.succeeded()
            raise
        except Away as away:
            self._breaker.failed(str(away))
            raise
        self._breaker.succeeded()
        decision = Decision.parse(limits, reply)
        if not decision.granted and self._denials is not None:
            self._denials.remember(decision, asked_at)
        return decision
