"""The servers of the tests, each with a folder of its own: redis-server with the module, a cluster
of three, and uvicorn with an application."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

ROOT = Path(__file__).parent.parent
SERVER = os.environ.get("RL_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("RL_TEST_MODULE", ROOT / "../../target/release/libredis_rl.so"))


def wait_for(what: str, done: Callable[[], Any], seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := done()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.01)
    return result


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RedisServer:
    def __init__(self, folder: Path, *options: str, module: bool = True) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.client: Any = redis.Redis(port=self.port, decode_responses=True)
        self._folder = folder
        self._log = folder / f"{self.port}.log"
        self._options = [*options, *(["--loadmodule", str(MODULE.resolve())] if module else [])]
        self._spawn()

    def _spawn(self) -> None:
        command = [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self._folder)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*command, *self._options], stdout=log)

    def start(self) -> None:
        """Again, after it was killed."""
        self._spawn()
        self.wait()

    def wait(self) -> None:
        wait_for("Redis", self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def in_cluster(self) -> bool:
        return bool(self.client.cluster("info")["cluster_state"] == "ok")

    def send(self, sig: signal.Signals) -> None:
        self._process.send_signal(sig)
        if sig == signal.SIGKILL:
            self._process.wait()

    def close(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()

    def all_keys(self) -> list[str]:
        return list(self.client.scan_iter())

    def calls(self, command: str) -> int:
        stats = self.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    def moved(self) -> int:
        stats = self.client.info("errorstats")
        return int(stats.get("errorstat_MOVED", {"count": 0})["count"])


@contextmanager
def redis_server(*options: str, module: bool = True) -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), *options, module=module)
        try:
            server.wait()
            yield server
        finally:
            server.close()


@contextmanager
def redis_cluster() -> Iterator[list[RedisServer]]:
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
    options += ["--cluster-require-full-coverage", "no"]
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(redis_server(*options, "--cluster-port", str(free_port())))
            for _ in range(3)
        ]
        cli = shutil.which("redis-cli", path=os.path.dirname(SERVER) or None) or "redis-cli"
        create = [cli, "--cluster", "create", *(f"127.0.0.1:{node.port}" for node in nodes)]
        subprocess.run(
            [*create, "--cluster-yes"], check=True, stdout=subprocess.DEVNULL, timeout=30
        )
        for node in nodes:
            wait_for("cluster", node.in_cluster)
        yield nodes


@asynccontextmanager
async def far_away(server: RedisServer, seconds: float) -> AsyncIterator[str]:
    """A URL of a server by which each of its replies takes longer."""

    async def copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
    ) -> None:
        with closing(writer), suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(delay)
                writer.write(data)

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(copy(reader, to_redis, 0), copy(from_redis, writer, seconds))

    async with asyncio.TaskGroup() as group:  # ends when the connections have
        proxies = await asyncio.start_server(
            lambda *streams: group.create_task(proxy(*streams)), "127.0.0.1", 0
        )
        yield f"redis://127.0.0.1:{proxies.sockets[0].getsockname()[1]}"
        proxies.close()


class AppServer:
    """uvicorn. It trusts 127.0.0.2 as a proxy, and nobody else."""

    def __init__(self, log: Path, app: str, env: dict[str, str]) -> None:
        self._log = log
        command = [sys.executable, "-m", "uvicorn", app, "--port", "0", "--no-access-log"]
        command += ["--forwarded-allow-ips", "127.0.0.2"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | env, stdout=output, stderr=output
            )

    def wait(self) -> None:
        found = wait_for("uvicorn", lambda: re.search(r"running on (\S+:(\d+))", self.log()))
        self.url = found[1]
        self.port = int(found[2])

    def log(self) -> str:
        assert self._process.poll() is None, self._log.read_text()
        return self._log.read_text()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        finally:
            self._process.kill()


@contextmanager
def app_server(url: str, app: str = "tests.app:app", **env: str) -> Iterator[AppServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = AppServer(Path(folder) / "log", app, {"REDIS_URL": url, **env})
        try:
            server.wait()
            yield server
        finally:
            server.stop()
