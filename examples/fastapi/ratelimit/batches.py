"""Permits fetched in advance: one call of Redis for n requests.

The price: a process may sit on up to n - 1 permits that nobody else gets, and uses a permit up to
`ttl` after it was taken.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from .decision import Decision
from .rules import Limits

MAX_ENTRIES = 10_000

Ask = Callable[[Limits, int], Awaitable[Decision]]


@dataclass(slots=True)
class _Batch:
    one: Decision
    left: int
    until: float


class Batches:
    def __init__(self, ask: Ask, size: int, ttl: float) -> None:
        self._ask = ask
        self._size = size
        self._ttl = ttl
        self._batches: OrderedDict[Limits, _Batch] = OrderedDict()
        self._fetches: dict[Limits, asyncio.Task[Decision]] = {}

    async def take(self, limits: Limits) -> Decision:
        """A permit from the batch of exactly these keys and rules, fetching one if need be.
        Whoever comes while that is under way shares it, or batches would save nothing."""
        while (decision := self._hand_out(limits)) is None:
            fetch = self._fetches.get(limits)
            first = fetch is None
            if fetch is None:
                fetch = asyncio.create_task(self._fetch(limits))
                fetch.add_done_callback(lambda task: task.cancelled() or task.exception())
                self._fetches[limits] = fetch
            # Shielded: a client that goes away must not cancel it for the others.
            fetched = await asyncio.shield(fetch)
            if first or not fetched.granted:
                return fetched
        return decision

    def _hand_out(self, limits: Limits) -> Decision | None:
        batch = self._batches.get(limits)
        if batch is None:
            return None
        if time.monotonic() >= batch.until:
            del self._batches[limits]
            return None
        batch.left -= 1
        if not batch.left:
            del self._batches[limits]
        return batch.one

    async def _fetch(self, limits: Limits) -> Decision:
        # Counted from before the call, so that no permit is used long after it was taken.
        until = time.monotonic() + self._ttl
        try:
            decision = await self._ask(limits, self._size)
        finally:
            del self._fetches[limits]
        one = replace(decision, granted=min(decision.granted, 1))
        if decision.granted > 1:  # the first is for the request that fetched
            self._batches[limits] = _Batch(one, decision.granted - 1, until)
            if len(self._batches) > MAX_ENTRIES:
                self._batches.popitem(last=False)
        return one
