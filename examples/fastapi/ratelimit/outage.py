"""One log line a second instead of one a request, while the limiter is away."""

import asyncio
import logging
from dataclasses import dataclass

logger = logging.getLogger("ratelimit")

PERIOD = 1.0


@dataclass(slots=True)
class _Outage:
    timer: asyncio.TimerHandle
    count: int = 0
    what: str = ""
    reason: str = ""


class OutageLog:
    """The first request that went unchecked is logged at once, later ones are summed up. A timer
    writes the sums, so they come out even when the traffic stops."""

    def __init__(self) -> None:
        self._outages: dict[str, _Outage] = {}

    def note(self, name: str, what: str, reason: str) -> None:
        """`what` happened to a request of `name`: "passed unchecked", for example."""
        outage = self._outages.get(name)
        if outage is None:
            logger.warning("rate limiter away for '%s': 1 request %s: %s", name, what, reason)
            self._outages[name] = _Outage(self._timer(name))
        else:
            outage.count += 1
            outage.what, outage.reason = what, reason

    def close(self) -> None:
        for name, outage in list(self._outages.items()):
            outage.timer.cancel()
            self._report(name)
        self._outages.clear()

    def _timer(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(PERIOD, self._tick, name)

    def _tick(self, name: str) -> None:
        if self._report(name):
            self._outages[name] = _Outage(self._timer(name))
        else:
            del self._outages[name]

    def _report(self, name: str) -> bool:
        outage = self._outages[name]
        if outage.count:
            logger.warning(
                "rate limiter away for '%s': %d request%s %s in the last second: %s",
                name,
                outage.count,
                "" if outage.count == 1 else "s",
                outage.what,
                outage.reason,
            )
        return outage.count > 0
