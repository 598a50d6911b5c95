"""The application under test: a route for each situation, and what happened inside.

REDIS_URL and REDIS_CLUSTER say where Redis is, as for ../app.py.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import redis
from fastapi import Depends, FastAPI, HTTPException, Request

from ratelimit import Dimension, Limiter, RateLimit, Rule, by_ip, connect, install, limiter
from ratelimit.decision import Decision
from ratelimit.deny_cache import DenyCache
from ratelimit.rules import Limit, Limits

logging.basicConfig(format="%(created)f %(message)s")

URL = os.environ["REDIS_URL"]
CLUSTER = os.environ.get("REDIS_CLUSTER") == "1"

# Where requests are counted exactly, a busy machine must not look like an outage.
patient = connect(URL, cluster=CLUSTER, timeout=1.0)
# Where time is measured, the default holds. (Not on a cluster: when a node fails, the others are
# slow for a moment, since they write that to their disks.)
store = connect(URL, cluster=CLUSTER, timeout=0.2 if CLUSTER else 0.05)


# --- Which calls are tried ---------------------------------------------------------------------

tries: Counter[str] = Counter()
acquire = store.acquire


async def counted_acquire(limits: Limits, upto: int = 1) -> list[Any]:
    tries[limits[0].key] += 1
    return await acquire(limits, upto)


store.acquire = counted_acquire  # type: ignore[method-assign]


# --- Whether the server agrees with what the deny cache refuses --------------------------------

peeks: Counter[str] = Counter()
server: Any = redis.Redis.from_url(URL)


class CheckedDenyCache(DenyCache):
    """Asks the server about every tenth refusal, and about each of the last ones before permits
    come back, in that very moment: nothing else runs meanwhile."""

    def find(self, limits: Sequence[Limit]) -> Decision | None:
        denial = super().find(limits)
        if denial is None:
            return None
        limit = denial.limits[0]
        until = self._denials[limit.key, limit.rule].until
        peeks["refused"] += 1
        if peeks["refused"] % 10 == 0 or until - time.monotonic() < 0.02:
            granted, *_ = server.execute_command("RL.PEEK", limit.key, limit.rule.text())
            # The answer means something only if it came before the memory of the denial ended.
            if time.monotonic() < until:
                peeks["wrong" if granted else "right"] += 1
            else:
                peeks["too late"] += 1
        return denial


limiter.DenyCache = CheckedDenyCache  # type: ignore[attr-defined]


# --- Routes ------------------------------------------------------------------------------------


def by_user(request: Request) -> str | None:
    return request.headers.get("x-user")


def everything(window: str, limit: int, **options: Any) -> Dimension:
    return Dimension("all", Rule(window, limit, "sliding", **options))


limits = [
    RateLimit(Limiter(patient, "burst"), everything("2s", 20)),
    RateLimit(
        Limiter(patient, "two", deny_cache=False),
        Dimension("ip", Rule("1h", 5, "sliding"), by_ip),
        Dimension("user", Rule("1h", 3, "sliding"), by_user),
    ),
    RateLimit(
        Limiter(patient, "headers"),
        Dimension("ip", Rule("90500ms", 9, "bucket", burst=12, cost=2), by_ip),
        Dimension("user", Rule("1h", 100, "sliding", name="named"), by_user),
    ),
    RateLimit(Limiter(patient, "never"), everything("1m", 5, cost=6)),
    RateLimit(Limiter(patient, "bad"), everything("1m", -1)),
    RateLimit(Limiter(patient, "xff"), Dimension("ip", Rule("1h", 100, "sliding"), by_ip)),
    RateLimit(
        Limiter(patient, "shadow"),
        everything("1h", 1),
        Dimension("user", Rule("1h", 2, "sliding"), by_user),
    ),
    RateLimit(Limiter(patient, "memory"), Dimension("user", Rule("1h", 2, "bucket"), by_user)),
    RateLimit(Limiter(patient, "attack"), everything("1s", 10)),
    RateLimit(Limiter(patient, "batch", batch=10, batch_ttl=1.0), everything("1h", 100)),
    RateLimit(Limiter(patient, "shared", batch=10, batch_ttl=1.0), everything("1h", 100)),
    RateLimit(Limiter(patient, "ttl", batch=10), everything("1h", 100)),
    RateLimit(
        Limiter(patient, "overload", batch=20),
        Dimension("all", Rule("1s", 1000, "bucket", burst=100)),
    ),
    RateLimit(Limiter(store, "kill-open"), everything("1h", 20)),
    RateLimit(Limiter(store, "kill-closed", on_away="closed"), everything("1h", 20)),
    RateLimit(Limiter(store, "stop-open"), everything("1h", 20)),
    RateLimit(Limiter(store, "stop-closed", on_away="closed"), everything("1h", 20)),
    RateLimit(Limiter(store, "under-way"), everything("1h", 20)),
]
if CLUSTER:
    limits += [RateLimit(Limiter(patient, f"slot-{n}"), everything("1h", 2)) for n in range(300)]
    limits += [RateLimit(Limiter(store, f"hang-{n}"), everything("1h", 1000)) for n in range(20)]


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    await store.warm_up()
    await patient.warm_up()
    yield
    await store.aclose()
    await patient.aclose()


app = FastAPI(lifespan=lifespan)
install(app)


@app.get("/stats")
async def stats() -> dict[str, Any]:
    return {"tries": tries, "peeks": peeks}


async def hello() -> str:
    return "hello"


for limit in limits:
    app.add_api_route(f"/{limit.name}", hello, dependencies=[Depends(limit)])


@app.get("/raises", dependencies=[Depends(limits[2])])
async def raises() -> None:
    raise HTTPException(401)
