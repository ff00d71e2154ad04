"""Tenants: who may use the platform.

Rows live in the registry database. What belongs to one tenant (documents, jobs, users) lives in that tenant's own
database. `core_api.provisioning` makes both.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from core_api.changes import announce_change
from core_api.tenant_keys import check_not_shredded
from nexarch import channels
from nexarch.db import Connection, fetch_all, fetch_optional
from nexarch.errors import Conflict, Forbidden, NotFound
from nexarch.tenant_database import identifier

SLUG = r"^[a-z][a-z0-9_]{1,48}$"


class NoSuchTenant(NotFound):
    """No tenant has this slug."""

    code = "tenant-not-found"
    title = "There is no such tenant"

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is no tenant {slug!r}.", tenant=slug)


class TenantSuspended(Forbidden):
    """The tenant is suspended: nothing of it is served until an operator resumes it."""

    code = "tenant-suspended"
    title = "The tenant is suspended"

    def __init__(self, slug: str) -> None:
        super().__init__(f"The tenant {slug!r} is suspended.", tenant=slug)


class TenantUnfinished(Conflict):
    """The tenant's database is still being made."""

    code = "tenant-unfinished"
    title = "The tenant is not complete yet"

    def __init__(self, slug: str) -> None:
        super().__init__(f"The tenant {slug!r} is still being made; create it again to finish it.", tenant=slug)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One row of `tenants`, without its sealed password."""

    id: UUID
    slug: str
    name: str
    status: str  # provisioning, active or suspended
    provision_step: str
    schema_version: int
    active_at: datetime
    idle_s: float  # since `active_at`, by the database's clock, so that no reader needs one of its own
    created_at: datetime
    updated_at: datetime


async def get_tenant(conn: Connection, slug: str) -> Tenant:
    """One tenant by its slug; `NoSuchTenant`."""
    sql = """
        SELECT id, slug, name, status, provision_step, schema_version, active_at,
               extract(epoch FROM now() - active_at)::float8 AS idle_s, created_at, updated_at
          FROM tenants
         WHERE slug = $1
    """
    tenant = await fetch_optional(conn, Tenant, sql, slug)
    if tenant is None:
        raise NoSuchTenant(slug)
    return tenant


async def get_active_tenant(conn: Connection, slug: str) -> Tenant:
    """One tenant that may be worked with; `NoSuchTenant`, `TenantSuspended`, `TenantUnfinished`."""
    tenant = await get_tenant(conn, slug)
    check_active(slug, tenant.status)
    return tenant


def check_active(slug: str, status: str) -> None:
    """Raise `TenantSuspended` or `TenantUnfinished` unless the status is `active`."""
    if status == "suspended":
        raise TenantSuspended(slug)
    if status != "active":
        raise TenantUnfinished(slug)


async def list_tenants(conn: Connection, *, after: str, limit: int) -> list[Tenant]:
    """The next `limit` tenants by slug, after a slug ('' for the first page)."""
    sql = """
        SELECT id, slug, name, status, provision_step, schema_version, active_at,
               extract(epoch FROM now() - active_at)::float8 AS idle_s, created_at, updated_at
          FROM tenants
         WHERE slug > $1
         ORDER BY slug
         LIMIT $2
    """
    return await fetch_all(conn, Tenant, sql, after, limit)


async def suspend_tenant(conn: Connection, slug: str) -> Tenant:
    """Serve nothing of a tenant any more: its role cannot log in, and its sessions end.

    Suspending twice is fine; `NoSuchTenant`, `TenantUnfinished`.
    """
    async with conn.transaction():
        tenant = await _set_status(conn, slug, "suspended", login=False)
    await _end_sessions(conn, f"tenant_{slug}")
    return tenant


async def resume_tenant(conn: Connection, slug: str) -> Tenant:
    """Serve a suspended tenant again; fine if it is active. `NoSuchTenant`, `TenantUnfinished`, `KeyShredded`."""
    async with conn.transaction():
        tenant = await _set_status(conn, slug, "active", login=True)
        await check_not_shredded(conn, tenant.id)
    return tenant


async def _set_status(conn: Connection, slug: str, status: str, *, login: bool) -> Tenant:
    sql = """
        UPDATE tenants
           SET status = $2, updated_at = CASE WHEN status = $2 THEN updated_at ELSE now() END
         WHERE slug = $1 AND status <> 'provisioning'
        RETURNING id, slug, name, status, provision_step, schema_version, active_at,
               extract(epoch FROM now() - active_at)::float8 AS idle_s, created_at, updated_at
    """
    tenant = await fetch_optional(conn, Tenant, sql, slug, status)
    if tenant is None:
        await get_tenant(conn, slug)
        raise TenantUnfinished(slug)
    await conn.execute(f"ALTER ROLE {identifier(f'tenant_{slug}')} {'LOGIN' if login else 'NOLOGIN'}")
    await announce_change(conn, channels.TENANTS, slug)
    return tenant


async def _end_sessions(conn: Connection, role: str) -> None:
    sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1"
    await conn.execute(sql, role)
