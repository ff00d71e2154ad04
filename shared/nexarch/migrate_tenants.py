"""The walk over all tenant databases: four at a time, on past a tenant that fails, each one reported."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import asyncpg

from nexarch.db import Connection, connect, fetch_all
from nexarch.migrate import Migration, MigrationRefused, migrate_down, migrate_up, read_migrations
from nexarch.tenant_database import admit_role, database_dsn

_AT_ONCE = 4


class MigrationFailed(Exception):
    """A tenant's database cannot be brought to this release; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDatabase:
    """Where one tenant's data lives, by its row in the registry."""

    slug: str
    database_name: str
    role_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMigrated:
    """What became of one tenant: the versions applied or undone now, or the error that stopped it."""

    slug: str
    versions: list[int]
    error: str | None


async def list_tenant_databases(registry: Connection) -> list[TenantDatabase]:
    """Every tenant that has a database, by slug; one whose database is still being made is left out."""
    sql = """
        SELECT slug, database_name, role_name
          FROM tenants
         WHERE provision_step NOT IN ('requested', 'role_created')
         ORDER BY slug
    """
    return await fetch_all(registry, TenantDatabase, sql)


async def migrate_tenants(
    registry_dsn: str,
    tenants: Sequence[TenantDatabase],
    migrations: Sequence[Migration],
    *,
    down_to: int | None = None,
) -> AsyncGenerator[TenantMigrated, None]:
    """Migrate each tenant up (or down to a version), and yield what became of it as it is done.

    `registry_dsn` names the owner of the databases. A tenant that fails is yielded with its error, and the
    others go on. The version reached is written to the tenant's row in the registry.
    """
    places = asyncio.Semaphore(_AT_ONCE)

    async def migrate(tenant: TenantDatabase) -> TenantMigrated:
        async with places:
            try:
                versions = await _migrate_one(registry_dsn, tenant, migrations, down_to)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, MigrationRefused, OSError) as error:
                return TenantMigrated(slug=tenant.slug, versions=[], error=str(error) or repr(error))
            return TenantMigrated(slug=tenant.slug, versions=versions, error=None)

    tasks = [asyncio.create_task(migrate(tenant)) for tenant in tenants]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:  # the caller may stop listening half way
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def migrate_every_tenant(registry_dsn: str) -> None:
    """Bring the databases that an earlier release made to this one's schema, as the bootstrap does for the registry.

    `MigrationFailed` at the first tenant for which that cannot be done.
    """
    conn = await connect(registry_dsn, application_name="nexarch-migrate")
    try:
        tenants = await list_tenant_databases(conn)
    finally:
        await conn.close()
    async with aclosing(migrate_tenants(registry_dsn, tenants, read_migrations("tenant"))) as migrated:
        async for tenant in migrated:
            if tenant.error is not None:
                raise MigrationFailed(f"The database of tenant {tenant.slug} cannot be migrated: {tenant.error}")


async def _migrate_one(
    registry_dsn: str, tenant: TenantDatabase, migrations: Sequence[Migration], down_to: int | None
) -> list[int]:
    dsn = database_dsn(registry_dsn, tenant.database_name)
    conn = await connect(dsn, application_name="nexarch-migrate")
    try:
        if down_to is None:
            versions = await migrate_up(conn, migrations)
            await admit_role(conn, tenant.role_name)
            reached = len(migrations)
        else:
            versions = await migrate_down(conn, migrations, to=down_to)
            reached = down_to
    finally:
        await conn.close()
    await _record_version(registry_dsn, tenant.slug, reached)
    return versions


async def _record_version(registry_dsn: str, slug: str, version: int) -> None:
    conn = await connect(registry_dsn, application_name="nexarch-migrate")
    try:
        sql = "UPDATE tenants SET schema_version = $2, updated_at = now() WHERE slug = $1"
        await conn.execute(sql, slug, version)
    finally:
        await conn.close()
