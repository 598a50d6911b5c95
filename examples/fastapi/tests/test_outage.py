"""Redis is killed, or hangs: requests are still answered, in time, and limited again afterwards."""

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest

from .servers import AppServer, RedisServer, app_server, redis_server
from .traffic import Answer, flood

SECONDS = 2.2
CONNECTIONS = 4


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """One that may be killed."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def app(server: RedisServer) -> Iterator[AppServer]:
    with app_server(server.url) as app:
        yield app


def logged(log: str, name: str) -> list[tuple[float, int]]:
    """When the limiter was said to be away, and for how many requests."""
    lines = re.findall(rf"^(\S+) rate limiter away for '{name}': (\d+) request", log, re.M)
    return [(float(when), int(count)) for when, count in lines]


async def outage(
    app: AppServer, client: httpx.AsyncClient, server: RedisServer, how: str
) -> dict[str, list[Answer]]:
    """A flood of two seconds while Redis is away, and what must be true of it but for the time."""
    names = [f"{how}-open", f"{how}-closed"]
    server.client.flushall()
    for name in names:  # warm, and not shut out by a breaker of before
        await limited_again(client, name)
    log_before = {name: len(logged(app.log(), name)) for name in names}
    tries_before = (await client.get("/stats")).json()["tries"]

    server.send(signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    try:
        end = time.monotonic() + SECONDS
        floods = (
            flood(app.port, f"/{name}", lambda _: time.monotonic() < end,
                  connections=CONNECTIONS, pause=0.02)
            for name in names
        )  # fmt: skip
        answers = dict(zip(names, await asyncio.gather(*floods), strict=True))
        tries = (await client.get("/stats")).json()["tries"]

        for name in names:
            # The breaker is open: five failures, with others under way, then one try a second.
            tried = tries[f"rl:{{{name}}}:all"] - tries_before[f"rl:{{{name}}}:all"]
            assert 5 <= tried <= 5 + CONNECTIONS + SECONDS
            # The log has every request, in one line a second, though there is no more traffic.
            deadline = time.monotonic() + 3
            while True:
                lines = logged(app.log(), name)[log_before[name] :]
                if sum(count for _, count in lines) == len(answers[name]):
                    break
                assert time.monotonic() < deadline, (len(answers[name]), lines)
                await asyncio.sleep(0.05)
            gaps = [later[0] - line[0] for line, later in pairwise(lines)]
            assert min(gaps) > 0.99
            assert lines[0][1] == 1
    finally:
        if how == "kill":
            server.start()
        else:
            server.send(signal.SIGCONT)
    return answers


async def limited_again(client: httpx.AsyncClient, name: str, seconds: float = 3.0) -> None:
    deadline = time.monotonic() + seconds
    unlimited = False
    while "ratelimit" not in (await client.get(f"/{name}")).headers:
        assert time.monotonic() < deadline, f"{name} not limited after {seconds} s"
        await asyncio.sleep(0.02)
        unlimited = True
    if unlimited:
        await asyncio.sleep(1.1)  # until the log has told of those requests


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_the_mode_applies_in_time_and_the_limit_comes_back(
    app: AppServer, client: httpx.AsyncClient, server: RedisServer, how: str
) -> None:
    for _ in range(2):  # measured once more if the machine was busy elsewhere
        answers = await outage(app, client, server, how)
        slowest = max(answer.seconds for found in answers.values() for answer in found)
        print(f"{how}: {sum(map(len, answers.values()))} requests, the slowest {slowest:.3f} s")
        if slowest < 0.1:
            break
        await asyncio.sleep(1.1)  # until the log is done with this outage
    assert slowest < 0.1
    for answer in answers[f"{how}-open"]:
        assert answer.status == 200
        assert not answer.limited
    for answer in answers[f"{how}-closed"]:
        assert answer.status == 503
        assert "retry-after: 1\r" in answer.head
        assert not answer.limited

    for name in answers:
        await limited_again(client, name)
        # A server that hung carries out what it was sent, so some permits may be gone.
        statuses = [(await client.get(f"/{name}")).status_code for _ in range(20)]
        assert statuses[-1] == 429
        assert 0 < statuses.count(200) < 20


async def test_what_was_under_way_is_not_sent_again(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    name = "under-way"
    await limited_again(client, name)
    server.send(signal.SIGSTOP)
    await asyncio.gather(*(client.get(f"/{name}") for _ in range(3)))
    server.send(signal.SIGKILL)
    server.start()
    await limited_again(client, name)
    # One, and one more if the machine was busy elsewhere; but not those three.
    assert server.calls("rl.acquirex") <= 2
