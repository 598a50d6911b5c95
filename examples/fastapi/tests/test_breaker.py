"""What counts as a failure of Redis, and what does not."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.exceptions import ResponseError

from ratelimit import Limiter, Rule, Store, connect
from ratelimit.rules import Limit, Limits
from ratelimit.store import Away, Busy

from .servers import RedisServer, far_away, redis_server


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[Store]:
    store = connect(server.url, timeout=1.0)
    yield store
    await store.aclose()


def limits(user: object, limit: int = 5) -> Limits:
    return (Limit("user", f"rl:{{breaker}}:user:{user}", Rule("1m", limit, "sliding")),)


@pytest.mark.parametrize("trial", ["memory", "bug"])
async def test_any_answer_to_the_trial_closes_it(
    server: RedisServer, store: Store, trial: str
) -> None:
    limiter = Limiter(store, "trial", breaker_failures=1, breaker_cooldown=0.1)
    assert (await limiter.acquire(limits("ann"))).granted
    server.client.replicaof("127.0.0.1", "1")
    with pytest.raises(Away, match="read only replica"):
        await limiter.acquire(limits("ann"))
    server.client.replicaof("NO", "ONE")
    with pytest.raises(Away, match="read only replica"):  # though it no longer is
        await limiter.acquire(limits("ann"))

    await asyncio.sleep(0.1)
    if trial == "memory":
        server.client.config_set("maxmemory", 1)
        with pytest.raises(Away, match="maxmemory"):
            await limiter.acquire(limits("bob"))
        server.client.config_set("maxmemory", 0)
    else:
        with pytest.raises(ResponseError, match="LIMIT must be"):
            await limiter.acquire(limits("bob", -1))
    assert (await limiter.acquire(limits("ann"))).granted


async def test_a_queue_of_our_own_does_not_open_it(server: RedisServer) -> None:
    async with far_away(server, 0.05) as url:
        store = connect(url, timeout=0.5, max_calls=1)
        await store.warm_up()
        limiter = Limiter(store, "queue")
        found = await asyncio.gather(
            *(limiter.acquire(limits(user)) for user in range(50)), return_exceptions=True
        )
        busy = sum(isinstance(decision, Busy) for decision in found)
        granted = sum(not isinstance(decision, Exception) for decision in found)
        assert busy + granted == 50
        assert 0 < granted < 20 < busy
        assert (await limiter.acquire(limits("ann"))).granted
        await store.aclose()
