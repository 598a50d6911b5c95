"""What most tests share: a server, an application on it, a client of that."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from .servers import AppServer, RedisServer, app_server, redis_server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def app(server: RedisServer) -> Iterator[AppServer]:
    with app_server(server.url) as app:
        yield app


@pytest.fixture
async def client(app: AppServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=app.url) as client:
        yield client
