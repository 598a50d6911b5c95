"""All rules of a call are one string. Nobody hides a word of his own in it."""

from contextlib import aclosing
from typing import Any

import httpx
import pytest

from ratelimit import Dimension, Limiter, RateLimit, Rule, connect

from .servers import RedisServer, app_server, redis_server

RULE: dict[str, Any] = {"window": "1m", "limit": 5, "algo": "bucket"}

HOSTILE: dict[str, list[Any]] = {
    "cost": ["1 FORCE", "1\tFORCE", "1", "", 1.5, True, float("nan")],
    "limit": ["5 FORCE", 5.0],
    "burst": ["5 COST 0", b"5"],
    "window": ["1m FORCE", "1m\nFORCE", " 1m", "", b"1m", 1000],
    "algo": ["bucket FORCE", "bucket\n", ""],
    "name": ["a b", "a FORCE", "a\n", "\u00a0", "", "x" * 65],
    "id": ["worker 1", "worker FORCE", "worker"],  # no rule here has a lease
    "cost 0 force": [1],
}


async def test_a_rule_that_would_be_more_than_its_words_is_refused_before_anything_is_sent(
    server: RedisServer,
) -> None:
    store = connect(server.url)
    async with aclosing(store):
        await store.warm_up()
        before = server.client.info("stats")["total_commands_processed"]
        for option, values in HOSTILE.items():
            for value in values:
                with pytest.raises((ValueError, TypeError)):
                    RateLimit(Limiter(store, "x"), Dimension("all", Rule(**RULE | {option: value})))
        for word in ("login FORCE", "login\n", "", "{login}"):
            with pytest.raises(ValueError, match="letters, digits"):
                RateLimit(Limiter(store, word), Dimension("all", Rule(**RULE)))
            with pytest.raises(ValueError, match="letters, digits"):
                RateLimit(Limiter(store, "login"), Dimension(word, Rule(**RULE)))
        # The one that asks.
        assert server.client.info("stats")["total_commands_processed"] == before + 1


async def test_a_route_always_sends_the_same_string_which_the_server_remembers() -> None:
    with redis_server() as server, app_server(server.url) as app:
        async with httpx.AsyncClient(base_url=app.url) as client:
            for i in range(10):
                answer = await client.get("/headers", headers={"x-user": f"user-{i} FORCE"})
                assert answer.status_code == (200 if i < 6 else 429)
        # All but the last, which the deny cache refuses; each but the first two is remembered.
        assert server.calls("rl.acquirex") == 7
        assert server.client.info("rl")["rl_rules_parsed"] == 2
