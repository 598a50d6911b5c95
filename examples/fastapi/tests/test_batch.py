"""Permits fetched in advance."""

import asyncio
import time

import httpx

from .servers import AppServer, RedisServer, app_server, far_away
from .traffic import flood


async def burst(client: httpx.AsyncClient, path: str, count: int) -> int:
    answers = await asyncio.gather(*(client.get(path) for _ in range(count)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 429}
    return statuses.count(200)


async def test_a_burst_passes_exactly_the_limit_with_few_calls(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    before = server.calls("rl.acquirex")
    assert await burst(client, "/batch", 150) == 100
    # Ten fetches of ten, and one that is denied; or fewer, since one asks for all who wait.
    assert server.calls("rl.acquirex") - before <= 11


async def test_two_processes_pass_no_more_than_the_limit(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    with app_server(server.url) as second:
        async with httpx.AsyncClient(base_url=second.url) as other:
            passed = await asyncio.gather(burst(client, "/shared", 80), burst(other, "/shared", 80))
    assert all(count >= 10 for count in passed)
    # Each may sit on what is left of its last batch.
    assert 100 - 2 * 9 <= sum(passed) <= 100


async def test_a_batch_is_dropped_after_its_time(
    client: httpx.AsyncClient, server: RedisServer, app: AppServer
) -> None:
    before = server.calls("rl.acquirex")
    await client.get("/ttl")
    await asyncio.sleep(0.1)  # batch_ttl, by default
    await client.get("/ttl")
    assert server.calls("rl.acquirex") - before == 2


async def test_overload_is_refused_and_no_outage(server: RedisServer) -> None:
    """Each fetch gets a few permits, so none is ever denied, while ever more requests wait."""
    async with far_away(server, 0.002) as url:
        with app_server(url) as app:
            start = time.monotonic()
            answers = await flood(
                app.port, "/overload", lambda _: time.monotonic() < start + 1, connections=100
            )
            seconds = time.monotonic() - start
            log = app.log()
    passed = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    print(f"{len(passed)} passed, {len(refused)} refused in {seconds:.2f} s")

    assert len(passed) + len(refused) == len(answers)
    assert all(answer.limited for answer in answers)
    assert "rate limiter away" not in log
    assert 500 * seconds < len(passed) <= 100 + 1000 * seconds
    assert len(refused) > 200
    for answer in refused:
        assert "\nretry-after: 1\r" in answer.head
        assert '\nratelimit: "all";r=0;t=1\r' in answer.head
