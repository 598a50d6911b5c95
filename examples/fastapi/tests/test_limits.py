"""What a client sees while Redis is there."""

import asyncio

import httpx
import pytest

from ratelimit.rules import MAX_PART, key_of

from .servers import AppServer, RedisServer, app_server


def remaining(server: RedisServer, key: str, limit: int) -> int:
    # With COST 0, since RL.PEEK answers what a call would, and that would take a permit.
    rule = f"WINDOW 1h LIMIT {limit} ALGO sliding COST 0"
    return int(server.client.execute_command("RL.PEEK", key, rule)[2])


async def test_exactly_the_limit_of_a_burst_passes(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.get("/burst") for _ in range(60)))
    passed = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert (len(passed), len(refused)) == (20, 40)
    for answer in answers:
        assert answer.headers["ratelimit-policy"] == '"all";q=20;w=2'
    assert {answer.headers["ratelimit"].split(";t=")[0] for answer in passed} == {
        f'"all";r={left}' for left in range(20)
    }
    for answer in refused:
        assert answer.headers["retry-after"] in ("1", "2")
        assert answer.headers["ratelimit"] == f'"all";r=0;t={answer.headers["retry-after"]}'
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["violated-policies"] == ["all"]

    # Who waits as told gets through.
    await asyncio.sleep(int(refused[-1].headers["retry-after"]))
    assert (await client.get("/burst")).status_code == 200


async def test_two_dimensions_refuse_on_their_own_and_leak_nothing(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    async def statuses(user: str, count: int) -> list[int]:
        calls = (client.get("/two", headers={"x-user": user}) for _ in range(count))
        return sorted(answer.status_code for answer in await asyncio.gather(*calls))

    ip, bob = key_of("two", "ip", "127.0.0.1"), key_of("two", "user", "bob")
    assert await statuses("ann", 13) == [200] * 3 + [429] * 10
    assert remaining(server, ip, 5) == 2  # ann's ten refusals took nothing from it
    assert await statuses("bob", 13) == [200] * 2 + [429] * 11
    assert remaining(server, bob, 3) == 1  # nor did those of the address from bob


async def test_the_headers_say_what_the_server_says(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    for path, status in (("/headers", 200), ("/raises", 401)):
        # RL.PEEK answers what the next call will.
        *_, states = server.client.execute_command(
            *("RL.PEEK", key_of("headers", "ip", "127.0.0.1"), key_of("headers", "user", "ann")),
            "WINDOW 90500ms LIMIT 9 ALGO bucket BURST 12 COST 2"
            " WINDOW 1h LIMIT 100 ALGO sliding WITHKEYS",
        )
        answer = await client.get(path, headers={"x-user": "ann"})
        assert answer.status_code == status
        ip, user = ([left, -(-reset // 1000)] for _, _, left, _, reset, _, _ in states)
        assert answer.headers["ratelimit-policy"] == '"ip";q=9;w=91, "user";q=100;w=3600'
        assert answer.headers["ratelimit"] == (
            f'"ip";r={ip[0]};t={ip[1]}, "user";r={user[0]};t={user[1]}'
        )
        assert "retry-after" not in answer.headers


async def test_what_can_never_be_granted_has_no_retry_after(client: httpx.AsyncClient) -> None:
    for _ in range(2):  # the second time from the deny cache
        answer = await client.get("/never")
        assert answer.status_code == 429
        assert "retry-after" not in answer.headers
        assert answer.headers["ratelimit"] == '"all";r=5'


async def test_a_bug_of_the_caller_is_an_error_and_not_an_outage(
    client: httpx.AsyncClient, app: AppServer
) -> None:
    for _ in range(10):  # uvicorn closes the connection after an error, so do not reuse it
        answer = await client.get("/bad", headers={"connection": "close"})
        assert answer.status_code == 500
    assert "LIMIT must be 0 to 1000000000000, got '-1'" in app.log()
    assert "rate limiter away for 'bad'" not in app.log()


async def test_a_full_memory_stops_only_new_limiters(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    async def get(user: str) -> httpx.Response:
        return await client.get("/memory", headers={"x-user": user})

    assert (await get("ann")).status_code == 200
    server.client.config_set("maxmemory", 1)
    try:
        for _ in range(10):  # more than would open the breaker
            answer = await get("bob")
            assert answer.status_code == 200
            assert "ratelimit" not in answer.headers
        assert [(await get("ann")).status_code for _ in range(2)] == [200, 429]
    finally:
        server.client.config_set("maxmemory", 0)


async def test_forwarded_for_counts_only_from_a_trusted_proxy(
    app: AppServer, server: RedisServer
) -> None:
    async def used(peer: str, forwarded: str) -> set[str]:
        server.client.flushall()
        transport = httpx.AsyncHTTPTransport(local_address=peer)
        async with httpx.AsyncClient(base_url=app.url, transport=transport) as client:
            await client.get("/xff", headers={"x-forwarded-for": forwarded})
        prefix = key_of("xff", "ip", "")
        return {key.removeprefix(prefix) for key in server.all_keys()}

    assert await used("127.0.0.1", "203.0.113.7") == {"127.0.0.1"}
    assert await used("127.0.0.2", "203.0.113.7") == {"203.0.113.7"}
    # Only the rightmost untrusted address is beyond the client's control.
    assert await used("127.0.0.2", "198.51.100.1, 203.0.113.7, 127.0.0.2") == {"203.0.113.7"}
    assert await used("127.0.0.2", "2001:db8:1:2:3:4:5:6") == {"2001%3Adb8%3A1%3A2%3A%3A%2F64"}


async def test_a_shadowed_key_is_not_taken_for_the_one_that_denied(
    client: httpx.AsyncClient, server: RedisServer
) -> None:
    server.client.execute_command(
        *("RL.POLICY", "SET", "shadow.all", "WINDOW", "1h", "LIMIT", 1, "ALGO", "sliding", "SHADOW")
    )
    users = ["ann", "ann", "ann", "bob"]
    calls = [await client.get("/shadow", headers={"x-user": user}) for user in users]
    assert [answer.status_code for answer in calls] == [200, 200, 429, 200]
    assert calls[2].json()["violated-policies"] == ["user"]


@pytest.mark.parametrize("value", ["{other}", "a}b{c", "x" * 1_000_000, "é" * 60, "#", "\ud800"])
def test_users_choose_neither_the_slot_nor_the_length_of_a_key(value: str) -> None:
    key = key_of("login", "user", value)
    part = key.removeprefix("rl:{login}:user:")
    assert not set(part) & set("{} \r\n")
    assert len(part) <= MAX_PART + 1
    assert key != key_of("login", "user", value + "x")


async def test_the_application_of_the_readme(server: RedisServer) -> None:
    with app_server(server.url, "app:app", REDIS_TIMEOUT_MS="1000") as app:
        async with httpx.AsyncClient(base_url=app.url) as client:
            logins = [await client.post("/login") for _ in range(6)]
            assert [answer.status_code for answer in logins] == [200] * 5 + [429]
            assert (await client.get("/search", headers={"x-api-key": "k"})).status_code == 200
            assert (await client.get("/feed")).status_code == 200
