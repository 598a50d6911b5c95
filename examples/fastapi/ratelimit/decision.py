"""The reply of RL.ACQUIREX ... WITHKEYS, and the headers that tell a client about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .rules import Limit


class State(NamedTuple):
    """Element 7 of the reply has one for each key. Times are in milliseconds."""

    granted: int
    limit: int
    remaining: int
    retry_after: int
    reset_after: int
    window: int
    quota: int


@dataclass(frozen=True, slots=True)
class Decision:
    limits: Sequence[Limit]
    states: Sequence[State]
    granted: int
    """Acquisitions granted: 0 is a denial, more than 1 a batch."""
    retry_after: int
    """Milliseconds; -1 when the call can never be granted."""
    binding: int
    """Which of the limits decided. Do not look for the denied one among the states: under a
    policy with SHADOW a key looks denied there and never denies."""

    @classmethod
    def parse(cls, limits: Sequence[Limit], reply: Sequence[Any]) -> "Decision":
        granted, _limit, _remaining, retry_after, _reset_after, binding, states = reply
        return cls(limits, [State(*state) for state in states], granted, retry_after, binding)

    def used_up(self) -> "Decision":
        """What it means for whoever got none of the permits that it granted. It does not say when
        there are more, so the wait is the shortest there is: a second, in the headers."""
        if not self.granted:
            return self
        states = list(self.states)
        states[self.binding] = states[self.binding]._replace(granted=0, retry_after=1)
        return replace(self, states=states, granted=0, retry_after=1)

    def headers(self) -> dict[str, str]:
        """The fields of draft-ietf-httpapi-ratelimit-headers, and Retry-After on a denial."""
        policies, states = [], []
        for limit, state in zip(self.limits, self.states, strict=True):
            policies.append(f'"{limit.dimension}";q={state.quota};w={_seconds(state.window)}')
            wait = state.reset_after if state.granted else state.retry_after
            until = f";t={_seconds(wait)}" if wait >= 0 else ""
            states.append(f'"{limit.dimension}";r={state.remaining}{until}')
        headers = {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}
        if not self.granted and self.retry_after >= 0:
            headers["Retry-After"] = str(max(1, _seconds(self.retry_after)))
        return headers


def _seconds(milliseconds: int) -> int:
    """Rounded up: a client that waits as told must not come too early."""
    return -(-milliseconds // 1000)
