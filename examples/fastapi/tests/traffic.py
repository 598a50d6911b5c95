"""Many requests: a keep-alive client that costs less than the server it asks."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    head: str
    seconds: float

    @property
    def limited(self) -> bool:
        return "\nratelimit:" in self.head


async def flood(
    port: int, path: str, more: Callable[[int], bool], *, connections: int = 8, pause: float = 0
) -> list[Answer]:
    """Each connection sends one request after the other while `more(refused so far)`."""
    answers: list[Answer] = []
    request = f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()
    refused = 0

    async def run() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while more(refused):
            start = time.monotonic()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(head.split("content-length: ")[1].split("\r")[0]))
            status = int(head[9:12])
            answers.append(Answer(status, head, time.monotonic() - start))
            refused += status == 429
            if pause:
                await asyncio.sleep(pause)
        writer.close()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(run())
    return answers
