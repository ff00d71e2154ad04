"""Watches the database server for what slows down the services on it."""

import asyncio
import math

import structlog
from prometheus_client import CollectorRegistry, Gauge

from nexarch.db import DATABASE_ERRORS, Pool, borrow
from nexarch.old_transactions import oldest_transaction

_TIMEOUT_S = 5.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def watch_server(registry_database: Pool, metrics: CollectorRegistry, every_s: float) -> None:
    """Measure until cancelled. While the server does not answer, the age is not a number: unknown, not 0."""
    oldest_s = Gauge(
        "nexarch_postgres_oldest_transaction_seconds",
        "Age of the oldest open transaction of the server; while it lives, the queue of its database gets slower",
        registry=metrics,
    )
    while True:
        try:
            async with borrow(registry_database, _TIMEOUT_S) as conn:
                oldest = await oldest_transaction(conn)
        except DATABASE_ERRORS as error:
            oldest_s.set(math.nan)
            _log.warning("server_not_watched", reason=f"{type(error).__name__}: {error}")
        else:
            oldest_s.set(0.0 if oldest is None else oldest.age_s)
        await asyncio.sleep(every_s)
