"""Rotating, retiring and shredding a tenant's key.

A version's key lies in the registry; the rows that are wrapped under it lie in the tenant's own database, and no
transaction spans the two. So the tenant's database holds a table of the versions that its rows may name
(`kek_versions`, with foreign keys on it), and the order of the steps does the rest:

- a version is allowed there before its key exists here, so that whoever gets the key can commit what they wrapped;
- a version is forbidden there before its key is retired here. Postgres refuses that while a row names it, waits for
  transactions that are about to, and from then on refuses rows that were wrapped before and come late.

A crash between two steps leaves a version that is allowed and has no key, or one that is forbidden and not retired
yet. Neither harms, and doing it again goes on from there.
"""

from dataclasses import dataclass, field

import asyncpg
import structlog

from core_api.master_key import MasterKey
from core_api.tenant_keys import (
    KeyVersion,
    add_version,
    check_not_shredded,
    list_versions,
    retire_version,
    shred_versions,
)
from core_api.tenants import NoSuchTenant, check_active, get_active_tenant, get_tenant
from nexarch import channels, jobs
from nexarch.db import Connection, Pool
from nexarch.errors import Conflict
from nexarch.job_types import REWRAP_KEYS
from nexarch.tenancy import TenantPools

log = structlog.get_logger(__name__)


class TenantNotSuspended(Conflict):
    """Keys are shredded only of a tenant that is suspended, so that nobody is at work with them."""

    code = "tenant-not-suspended"
    title = "The tenant is not suspended"

    def __init__(self, slug: str) -> None:
        super().__init__(f"The tenant {slug!r} is not suspended; suspend it first.", tenant=slug)


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """What it needs; `databases` as their owner, since the tenant's role may not write `kek_versions`."""

    registry: Pool
    databases: TenantPools
    master: MasterKey = field(repr=False)

    async def rotate(self, slug: str) -> list[KeyVersion]:
        """Make a new version that wraps from now on, and have the rows of older ones wrapped anew.

        Returns all versions, newest first. `NoSuchTenant`, `TenantSuspended`, `TenantUnfinished`, `KeyShredded`,
        `KeyRotationRunning`.
        """
        async with self.registry.acquire() as conn:
            tenant = await get_active_tenant(conn, slug)
            await check_not_shredded(conn, tenant.id)
            version = (await list_versions(conn, tenant.id))[0].version + 1
        async with self.databases.acquire(slug) as inside:
            await _allow(inside, version)
        async with self.registry.acquire() as conn, conn.transaction():
            check_active(slug, await _lock_status(conn, slug))
            await add_version(conn, self.master, tenant.id, version)
            versions = await list_versions(conn, tenant.id)
        log.info("tenant key rotated", tenant=slug, version=version)
        await self._order_rewrapping(slug)
        return versions

    async def retire_unused(self, slug: str) -> list[KeyVersion]:
        """Retire the older versions that nothing is wrapped under any more; returns all versions, newest first.

        `NoSuchTenant`, `TenantSuspended`, `TenantUnfinished`.
        """
        async with self.registry.acquire() as conn:
            tenant = await get_active_tenant(conn, slug)
            versions = await list_versions(conn, tenant.id)
        for version in [each.version for each in versions if each.state == "retiring"]:
            async with self.databases.acquire(slug) as inside:
                forbidden = await _forbid(inside, version)
            if forbidden:
                async with self.registry.acquire() as conn:
                    await retire_version(conn, tenant.id, version)
                log.info("tenant key retired", tenant=slug, version=version)
        async with self.registry.acquire() as conn:
            return await list_versions(conn, tenant.id)

    async def shred(self, slug: str) -> list[KeyVersion]:
        """Destroy all keys of a suspended tenant, for ever; fine if it is done. Returns all versions, newest first.

        `NoSuchTenant`, `TenantNotSuspended`.
        """
        async with self.registry.acquire() as conn, conn.transaction():
            if await _lock_status(conn, slug) != "suspended":
                raise TenantNotSuspended(slug)
            tenant = await get_tenant(conn, slug)
            await shred_versions(conn, tenant.id)
            versions = await list_versions(conn, tenant.id)
        log.warning("tenant keys shredded", tenant=slug, versions=len(versions))
        return versions

    async def _order_rewrapping(self, slug: str) -> None:
        """The job comes round by itself too, so one that is lost between the commits is only later."""
        async with self.registry.acquire() as conn:
            await conn.execute("SELECT arm_tenant($1)", slug)
        async with self.databases.acquire(slug) as inside:
            # The key of the job that comes round: one that waits stands for both.
            await jobs.enqueue(inside, REWRAP_KEYS, {}, queued_key=f"period:{REWRAP_KEYS}")
        async with self.registry.acquire() as conn:
            await conn.execute("SELECT pg_notify($1, $2)", channels.JOBS, slug)


async def _lock_status(conn: Connection, slug: str) -> str:
    """The tenant's status, which does not change before the transaction ends."""
    status: str | None = await conn.fetchval("SELECT status FROM tenants WHERE slug = $1 FOR NO KEY UPDATE", slug)
    if status is None:
        raise NoSuchTenant(slug)
    return status


async def _allow(inside: Connection, version: int) -> None:
    await inside.execute("INSERT INTO kek_versions (version) VALUES ($1) ON CONFLICT DO NOTHING", version)


async def _forbid(inside: Connection, version: int) -> bool:
    """Whether no row names the version, nor can any more; False if one does or is about to."""
    try:
        async with inside.transaction():
            await inside.execute("SET LOCAL lock_timeout = '2s'")  # for one that is about to
            await inside.execute("DELETE FROM kek_versions WHERE version = $1", version)
    except (asyncpg.ForeignKeyViolationError, asyncpg.LockNotAvailableError):
        return False
    return True
