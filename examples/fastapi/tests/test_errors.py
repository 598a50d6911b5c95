"""Which errors mean that the limiter is away, and which are bugs: real replies of a real server."""

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from ratelimit import Rule, connect
from ratelimit.rules import Limit
from ratelimit.store import Away

from .servers import RedisServer, redis_server, wait_for

LIMITS = (Limit("all", "rl:{errors}:all", Rule("1m", 5, "sliding")),)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server("--enable-protected-configs", "local") as server:
        yield server


async def reply(url: str) -> str:
    store = connect(url, timeout=1.0)
    async with aclosing(store):
        try:
            await store.acquire(LIMITS)
        except Away as away:
            return f"away: {away}"
        except RedisError as error:
            return f"bug: {error}"
    return "granted"


async def test_replies_that_mean_away(server: RedisServer, tmp_path: Path) -> None:
    config = server.client.config_set

    config("min-replicas-to-write", 1)
    assert (await reply(server.url)).startswith("away: NOREPLICAS")
    config("min-replicas-to-write", 0)

    (tmp_path / "gone").mkdir()
    folder = server.client.config_get("dir")["dir"]
    config("dir", str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    config("save", "3600 1")
    server.client.bgsave()
    wait_for("failed save", lambda: server.client.info()["rdb_last_bgsave_status"] == "err")
    assert (await reply(server.url)).startswith("away: MISCONF")
    config("save", "")
    config("dir", folder)

    server.client.replicaof("127.0.0.1", "1")
    assert "read only replica" in await reply(server.url)
    config("replica-read-only", "no")
    config("replica-serve-stale-data", "no")
    assert (await reply(server.url)).startswith("away: Link with MASTER is down")
    config("replica-read-only", "yes")
    config("replica-serve-stale-data", "yes")
    server.client.replicaof("NO", "ONE")

    config("maxmemory", 1)
    assert (await reply(server.url)).startswith("away: command not allowed when used memory")
    config("maxmemory", 0)

    assert (await reply("redis://127.0.0.1:1")).startswith("away: Error 111 connecting")
    assert await reply(server.url) == "granted"


async def test_a_server_without_the_module_is_away() -> None:
    with redis_server(module=False) as server:
        assert (await reply(server.url)).startswith("away: unknown command 'RL.ACQUIREX'")


async def test_bugs_are_not_taken_for_an_outage(server: RedisServer) -> None:
    server.client.acl_setuser("few", enabled=True, passwords=["+pw"], commands=["+ping"])
    url = server.url.replace("//", "//few:{}@")
    assert (await reply(url.format("wrong"))).startswith("bug: invalid username-password pair")
    assert (await reply(url.format("pw"))).startswith("bug: this user has no permissions")
    server.client.set(LIMITS[0].key, "a string")
    assert (await reply(server.url)).startswith("bug: WRONGTYPE")
