"""A circuit breaker: stops asking after some failures in a row, and tries again now and then."""

import time


class Breaker:
    def __init__(self, failures: int, cooldown: float) -> None:
        self._threshold = failures
        self._cooldown = cooldown
        self._failures = 0
        self._open_until = 0.0
        self.reason = ""

    def allows(self) -> bool:
        if self._failures < self._threshold:
            return True
        now = time.monotonic()
        if now < self._open_until:
            return False
        # Half-open: this caller tries, the others are turned away until it reports, or, should it
        # never do so, for another cooldown.
        self._open_until = now + self._cooldown
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, reason: str) -> None:
        self._failures += 1
        self._open_until = time.monotonic() + self._cooldown
        self.reason = reason
