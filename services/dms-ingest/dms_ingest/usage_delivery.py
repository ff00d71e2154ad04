"""Telling core-api how much each tenant stores: rows of the outbox, at least once from here, applied once there.

A row is written in the transaction of the change itself. core-api knows the ids it has applied, so a row may be sent
again after a crash or a lost answer without being counted twice. While core-api is away, rows wait; nothing else does.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import structlog

from nexarch.core_client import CoreApiAway, CoreClient, UsageDelta
from nexarch.db import AWAY, Connection, fetch_all
from nexarch.errors import NexarchError
from nexarch.listen import backoff_s
from nexarch.tenancy import TenantPools

log = structlog.get_logger(__name__)

_BATCH = 500
_SWEEP_S = 3600.0  # finds what a process that died between commit and delivery left
_FIRST_RETRY_S = 0.2
_LONGEST_RETRY_S = 30.0
_DATABASE_RETRY_S = 10.0
_DATABASE_TROUBLE: tuple[type[Exception], ...] = (OSError, asyncpg.PostgresError, *AWAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One row of `usage_outbox` that core-api has not confirmed."""

    id: UUID
    metric: str
    delta: int


async def undelivered(conn: Connection) -> list[UsageRow]:
    """The oldest rows that core-api has not confirmed, at most 500."""
    sql = "SELECT id, metric, delta FROM usage_outbox WHERE delivered_at IS NULL ORDER BY id LIMIT $1"
    return await fetch_all(conn, UsageRow, sql, _BATCH)


async def mark_delivered(conn: Connection, ids: Sequence[UUID]) -> None:
    """Note that core-api has confirmed these rows."""
    sql = "UPDATE usage_outbox SET delivered_at = now() WHERE id = ANY($1) AND delivered_at IS NULL"
    await conn.execute(sql, ids)


class UsageDelivery:
    """Delivers the outboxes of all tenants, one batch at a time; `run` is the loop."""

    def __init__(self, core: CoreClient, tenants: TenantPools, *, sweep_s: float = _SWEEP_S) -> None:
        self._core = core
        self._tenants = tenants
        self._sweep_s = sweep_s
        self._due: dict[str, None] = {}  # tenants in the order they came
        self._work = asyncio.Event()
        self.failures = 0  # in a row

    def wake(self, tenant: str) -> None:
        """Say that a tenant's outbox has rows. Call it after the commit; it returns at once."""
        self._due[tenant] = None
        self._work.set()

    async def run(self) -> None:
        """Deliver until cancelled: what is woken at once, and every tenant at the start and at each sweep."""
        loop = asyncio.get_running_loop()
        next_sweep = loop.time()
        while True:
            self._work.clear()
            try:
                if loop.time() >= next_sweep:
                    await self._all_are_due()
                    next_sweep = loop.time() + self._sweep_s
                await self._deliver_due()
            except NexarchError as error:  # core-api is away, or does not know our credentials
                self.failures += 1
                log.warning("usage not delivered yet", reason=error.detail, failures=self.failures)
                await asyncio.sleep(backoff_s(self.failures, _FIRST_RETRY_S, _LONGEST_RETRY_S))
                continue
            self.failures = 0
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._work.wait(), max(0.0, next_sweep - loop.time()))

    async def _all_are_due(self) -> None:
        async for tenant in self._core.tenants():
            if tenant.status == "active":
                self._due[tenant.slug] = None

    async def _deliver_due(self) -> None:
        """Empty the outboxes that are due; one tenant's trouble holds up nobody else's."""
        while self._due:
            tenant = next(iter(self._due))
            del self._due[tenant]
            try:
                await self._empty(tenant)
            except CoreApiAway:
                self._due[tenant] = None  # behind the others
                raise
            except NexarchError as error:  # suspended or gone: the next sweep looks again
                log.info("usage of a tenant waits", tenant=tenant, reason=error.detail)
            except _DATABASE_TROUBLE as error:
                log.warning("usage of a tenant waits", tenant=tenant, reason=f"{type(error).__name__}: {error}")
                asyncio.get_running_loop().call_later(_DATABASE_RETRY_S, self.wake, tenant)

    async def _empty(self, tenant: str) -> None:
        while True:
            async with self._tenants.acquire(tenant) as conn:
                rows = await undelivered(conn)
            if not rows:
                return
            # No connection is held while core-api answers.
            await self._core.report_usage(
                [UsageDelta(id=row.id, tenant_slug=tenant, metric=row.metric, delta=row.delta) for row in rows]
            )
            async with self._tenants.acquire(tenant) as conn:
                await mark_delivered(conn, [row.id for row in rows])
