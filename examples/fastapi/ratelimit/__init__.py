"""Rate limiting of FastAPI routes by redis-rl: a dependency, on redis-py's asyncio client."""

from .dependency import Dimension, RateLimit, by_ip, install
from .limiter import Limiter
from .rules import Rule
from .store import Store, connect

__all__ = ["Dimension", "Limiter", "RateLimit", "Rule", "Store", "by_ip", "connect", "install"]
