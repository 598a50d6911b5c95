"""An attacker who does not stop when refused costs Redis next to nothing."""

import time

import httpx

from .servers import AppServer, RedisServer
from .traffic import flood

REQUESTS = 10_000
LIMIT, WINDOW = 10, 1.0


async def test_refusals_stay_local_and_refuse_nothing_that_would_be_granted(
    app: AppServer, client: httpx.AsyncClient, server: RedisServer
) -> None:
    before = server.calls("rl.acquirex")
    start = time.monotonic()
    end = start + 2.2 * WINDOW  # long enough to see permits come back

    def more(refused: int) -> bool:
        return refused < REQUESTS or time.monotonic() < end

    answers = await flood(app.port, "/attack", more, connections=16)
    seconds = time.monotonic() - start
    calls = server.calls("rl.acquirex") - before
    peeks = (await client.get("/stats")).json()["peeks"]
    passed = sum(answer.status == 200 for answer in answers)
    refused = sum(answer.status == 429 for answer in answers)
    print(f"{passed} passed, {refused} refused in {seconds:.1f} s, {calls} calls, PEEK {peeks}")

    assert passed + refused == len(answers)
    assert calls <= refused * 0.05
    # The server agreed with each refusal that it was asked about.
    assert peeks.get("wrong", 0) == 0
    assert peeks["right"] > REQUESTS * 0.08
    # All permits were delivered, as they came back, and no more.
    assert LIMIT * int(0.95 * seconds / WINDOW) <= passed <= LIMIT * (int(seconds / WINDOW) + 1)
