"""The connection to Redis: one call, answered in time or not at all.

`Away` means that there is no verdict, and the endpoint's mode decides. Any other error is a bug of
the caller and is not caught.
"""

import asyncio
from contextlib import suppress
from typing import Any

from redis import exceptions as errors
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .outage import OutageLog
from .rules import Limits, rules_of


class Away(Exception):
    """The limiter could not be asked, or could not answer."""


class Busy(Away):
    """Too many calls are under way from here: there was no time left to ask Redis."""


class MemoryFull(Away):
    """Stops new limiters only, the others go on."""


# Replies, even if redis-py has two of them for lost connections.
ANSWERS = (errors.ResponseError, errors.AuthenticationError, errors.AuthorizationError)


class Store:
    """A single Redis, or the primary of one with replicas."""

    def __init__(self, client: Redis | RedisCluster, *, timeout: float, max_calls: int) -> None:
        self._client: Any = client
        self.timeout = timeout
        # Redis clients refuse when their pool is empty. Waiting is better, and part of the timeout.
        self._max_calls = max_calls
        self._turns = asyncio.Semaphore(max_calls)
        self.outages = OutageLog()

    async def acquire(self, limits: Limits, upto: int = 1) -> list[Any]:
        """Takes up to `upto` permits from every limit, or from none. Never tried twice: a call
        that timed out may have been carried out."""
        keys = [limit.key for limit in limits]
        rules = rules_of(limits, upto)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.timeout
        left = 0.0
        try:
            async with asyncio.timeout_at(deadline), self._turns:
                left = deadline - clock()
                reply: list[Any] = await self._execute("RL.ACQUIREX", *keys, rules)
                return reply
        except TimeoutError:
            late = f"within {self.timeout * 1000:.0f} ms"
            if left < self.timeout / 2:  # it was the queue, and maybe not Redis at all
                raise Busy(f"no turn among too many calls {late}") from None
            raise Away(f"no answer {late}") from None
        except errors.OutOfMemoryError as error:
            raise MemoryFull(str(error)) from error
        except (errors.RedisError, errors.RedisClusterException) as error:
            if not _is_away(error):
                raise
            raise Away(str(error) or type(error).__name__) from error

    async def warm_up(self, seconds: float = 1.0) -> None:
        """Connects before the first rush does, for which it could take too long. An application
        starts all the same when Redis is away."""
        with suppress(TimeoutError, errors.RedisError, errors.RedisClusterException):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self._client.ping() for _ in range(self._max_calls)))

    async def aclose(self) -> None:
        self.outages.close()
        await self._client.aclose()

    async def _execute(self, command: str, key: str, *args: Any) -> Any:
        return await self._client.execute_command(command, key, *args)


class ClusterStore(Store):
    """A cluster. redis-py would find the node by itself, but not say which one has failed. All keys
    of a call share a slot, so the first one tells the node."""

    _topology: asyncio.Task[Any] | None = None
    _failed_node: str | None = None

    async def _execute(self, command: str, key: str, *args: Any) -> Any:
        await self._initialized()
        node = self._client.get_node_from_key(key)
        try:
            return await self._client.execute_command(command, key, *args, target_nodes=node)
        except (errors.ConnectionError, errors.TimeoutError):
            self._failed_node = node.name
            raise

    async def _initialized(self) -> None:
        """Reads the topology, at first and again after a failure, then rather from another node;
        else does nothing. That may take longer than a request waits, so it goes on without it."""
        if self._topology is None or self._topology.done():
            reading = self._client.initialize(last_failed_node_name=self._failed_node)
            self._topology = asyncio.create_task(reading)
            self._topology.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._topology)


def connect(
    url: str, *, cluster: bool = False, timeout: float = 0.05, max_calls: int = 16
) -> Store:
    """Connects when called. `timeout` is in seconds and covers everything: waiting for a
    connection, connecting, the call. 16 calls at once are 8000 a second if Redis is 2 ms away: more
    than a process sends. With many more, a busy one would be late for their answers, and take that
    for a failure of Redis; the rest rather waits here."""
    once = Retry(NoBackoff(), 0)
    if not cluster:
        client = Redis.from_url(url, retry=once, max_connections=max_calls)
        return Store(client, timeout=timeout, max_calls=max_calls)
    # The sockets' own timeout comes first: it tells redis-py to look for a failed-over primary.
    sockets = {"socket_timeout": timeout * 0.8, "socket_connect_timeout": timeout * 0.8}
    nodes = RedisCluster.from_url(url, retry=once, max_connections=max_calls, **sockets)
    return ClusterStore(nodes, timeout=timeout, max_calls=max_calls)


_AWAY = (
    errors.ConnectionError,  # LOADING too
    errors.TimeoutError,
    errors.ReadOnlyError,
    errors.ClusterError,  # CLUSTERDOWN, MASTERDOWN, too many redirections
    errors.TryAgainError,
    errors.RedisClusterException,  # no node answers
)
# Replies that redis-py has no class for.
_AWAY_REPLIES = ("unknown command", "MISCONF", "NOREPLICAS", "BUSY")


def _is_away(error: Exception) -> bool:
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return False  # subclasses of ConnectionError, but a wrong password is a bug
    return isinstance(error, _AWAY) or str(error).startswith(_AWAY_REPLIES)
