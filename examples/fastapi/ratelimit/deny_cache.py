"""Remembers denials for a moment, so that a client that is refused a thousand times a second does
not cost Redis a thousand calls."""

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from .decision import Decision, State
from .rules import Limit, Rule

MAX_ENTRIES = 10_000
MAX_SECONDS = 1.0
"""How long an operator's change (RL.EXEMPT, RL.POLICY, DEL) can go unnoticed."""


class _Denial(NamedTuple):
    until: float
    ready_at: float
    state: State


class DenyCache:
    def __init__(self) -> None:
        self._denials: OrderedDict[tuple[str, Rule], _Denial] = OrderedDict()

    def remember(self, decision: Decision, asked_at: float) -> None:
        """Only the binding key is known to have denied. A denial must not be believed for longer
        than it holds, so it is counted from before the call (`asked_at`), and less the millisecond
        that the server may have rounded its clock down by."""
        wait = decision.retry_after / 1000 if decision.retry_after >= 0 else math.inf
        limit = decision.limits[decision.binding]
        # A rule has its cost in it: a smaller one may pass where a larger one did not.
        known = limit.key, limit.rule
        self._denials[known] = _Denial(
            until=asked_at + min(wait, MAX_SECONDS) - 0.001,
            # What clients are told, on the other hand, is counted from now: never too short.
            ready_at=time.monotonic() + wait,
            state=decision.states[decision.binding],
        )
        self._denials.move_to_end(known)
        if len(self._denials) > MAX_ENTRIES:
            self._denials.popitem(last=False)

    def find(self, limits: Sequence[Limit]) -> Decision | None:
        """A denial that holds for one of these limits: the one with the longest wait."""
        now = time.monotonic()
        found = [
            (denial.ready_at, limit, denial.state)
            for limit in limits
            if (denial := self._get(limit, now)) is not None
        ]
        if not found:
            return None
        ready_at, limit, state = max(found, key=lambda entry: entry[0])
        wait = -1 if ready_at == math.inf else math.ceil((ready_at - now) * 1000)
        return Decision([limit], [state._replace(retry_after=wait)], 0, wait, 0)

    def _get(self, limit: Limit, now: float) -> _Denial | None:
        denial = self._denials.get((limit.key, limit.rule))
        if denial is None or now < denial.until:
            return denial
        del self._denials[limit.key, limit.rule]
        return None
