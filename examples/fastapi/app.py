"""A small API whose routes are limited. Run it with `uvicorn app:app`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request

from ratelimit import Dimension, Limiter, RateLimit, Rule, by_ip, connect, install

store = connect(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"),
    cluster=os.environ.get("REDIS_CLUSTER") == "1",
    timeout=int(os.environ.get("REDIS_TIMEOUT_MS", "50")) / 1000,
)


def by_api_key(request: Request) -> str | None:
    """A real application asks its authentication: a name that anybody can make up is no limit."""
    return request.headers.get("x-api-key")


# Guards something that breaks: without its limits the route rather answers 503.
login = RateLimit(
    Limiter(store, "login", on_away="closed"),
    Dimension("ip", Rule("1m", 5, "sliding"), by_ip),
    Dimension("all", Rule("1s", 100, "bucket")),
)

# Shares out a capacity: without its limits the route goes on.
search = RateLimit(
    Limiter(store, "search"),
    Dimension("user", Rule("1s", 5, "bucket", burst=20), by_api_key),
    Dimension("ip", Rule("1m", 600, "sliding"), by_ip),
)

# Busy, and a few permits unused are no harm: one call of Redis for up to 20 requests.
feed = RateLimit(
    Limiter(store, "feed", batch=20),
    Dimension("all", Rule("1s", 2000, "bucket")),
)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    await store.warm_up()
    yield
    await store.aclose()


app = FastAPI(lifespan=lifespan)
install(app)


@app.post("/login", dependencies=[Depends(login)])
async def post_login() -> dict[str, str]:
    return {"token": "..."}


@app.get("/search", dependencies=[Depends(search)])
async def get_search(q: str = "") -> dict[str, list[str]]:
    return {"found": [q]}


@app.get("/feed", dependencies=[Depends(feed)])
async def get_feed() -> dict[str, list[str]]:
    return {"items": []}
