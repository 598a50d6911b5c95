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
        self._waiting: dict[Limits, list[asyncio.Future[Decision]]] = {}
        self._fetches: set[asyncio.Task[None]] = set()  # the event loop alone may drop them

    async def take(self, limits: Limits) -> Decision:
        """A permit from the batch of exactly these keys and rules, fetching one if need be.
        Whoever comes while that is under way shares it, or batches would save nothing."""
        if (permit := self._hand_out(limits)) is not None:
            return permit
        waiter: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        if limits in self._waiting:
            self._waiting[limits].append(waiter)
        else:
            self._waiting[limits] = [waiter]
            # A task of its own: a client that goes away must not cancel it for the others.
            fetch = asyncio.create_task(self._fetch(limits))
            self._fetches.add(fetch)
            fetch.add_done_callback(self._fetches.discard)
        return await waiter

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

    async def _fetch(self, limits: Limits) -> None:
        """Until nobody waits. That takes two calls at most of whoever does: the one under way when
        he came, and one that asks for all who are left."""
        waiting = self._waiting[limits]
        try:
            while waiting:
                # Counted from before the call, so that no permit is used long after it was taken.
                until = time.monotonic() + self._ttl
                asked = max(self._size, len(waiting))
                decision = await self._ask(limits, asked)
                self._share(limits, decision, asked, until)
        except Exception as error:
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(error)
        finally:
            del self._waiting[limits]

    def _share(self, limits: Limits, decision: Decision, asked: int, until: float) -> None:
        waiting = self._waiting[limits]
        waiting[:] = [waiter for waiter in waiting if not waiter.done()]  # whose client went away
        one = replace(decision, granted=min(decision.granted, 1))
        for waiter in waiting[: decision.granted]:
            waiter.set_result(one)
        left = decision.granted - len(waiting)
        del waiting[: decision.granted]
        if left > 0:
            self._batches[limits] = _Batch(one, left, until)
            if len(self._batches) > MAX_ENTRIES:
                self._batches.popitem(last=False)
        elif decision.granted < asked:
            # The limit had no more room, so whoever got nothing is refused.
            for waiter in waiting:
                waiter.set_result(decision.used_up())
            waiting.clear()
