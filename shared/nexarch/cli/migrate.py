"""`nexarch migrate`: the registry and every tenant database to the schema of this release, or back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.databases import reaching
from nexarch.cli.failures import FAILED, Failure, NotAuthorised, NotFound
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import count_progress, note, show_json, show_line, show_table, state, when
from nexarch.cli.target import resolve_target
from nexarch.db import Connection, connect
from nexarch.migrate import Migration, MigrationRefused, migrate_down, migrate_up, migration_status, read_migrations
from nexarch.migrate_tenants import TenantDatabase, TenantMigrated, list_tenant_databases, migrate_tenants
from nexarch.seed import seed
from nexarch.tenant_database import database_dsn

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Which databases a command is for."""

    dsn: str
    registry: bool
    tenants: bool
    tenant: str | None  # slug; None is all of them


@click.group()
def migrate() -> None:
    """Database schemas."""


def _scope_options(command: F) -> F:
    for option in reversed(_SCOPE):
        command = option(command)
    return command


_SCOPE = [
    click.option("--dsn", help="Address of the registry database as nexarch_core; or NEXARCH_REGISTRY_DSN."),
    click.option("--registry-only", is_flag=True, help="Only the registry database."),
    click.option("--tenants-only", is_flag=True, help="Only the tenant databases."),
    click.option("--tenant", type=SLUG, help="Only the database of this tenant."),
]


def _scope(options: Options, dsn: str | None, registry_only: bool, tenants_only: bool, tenant: str | None) -> _Scope:
    if registry_only and (tenants_only or tenant is not None):
        raise click.UsageError("--registry-only excludes --tenants-only and --tenant.")
    dsn = dsn or resolve_target(options.endpoints).registry_dsn
    if dsn is None:
        raise NotAuthorised(
            "The address of the registry database is not known.",
            hint="Give --dsn, NEXARCH_REGISTRY_DSN or --endpoints.",
        )
    return _Scope(dsn=dsn, registry=not tenants_only and tenant is None, tenants=not registry_only, tenant=tenant)


@migrate.command("up")
@_scope_options
@shared_options
@pass_options
def up(options: Options, *, dsn: str | None, registry_only: bool, tenants_only: bool, tenant: str | None) -> None:
    """Apply what is pending: first to the registry, then to four tenants at a time.

    A tenant that fails does not stop the others; it is reported, and the exit code is 1.
    """
    scope = _scope(options, dsn, registry_only, tenants_only, tenant)
    _report(options, *asyncio.run(_up(scope)), "applied")


@migrate.command("down")
@click.option("--to", type=click.IntRange(0), help="Undo every version above this; without it, the newest one.")
@_scope_options
@shared_options
@pass_options
def down(
    options: Options,
    *,
    to: int | None,
    dsn: str | None,
    registry_only: bool,
    tenants_only: bool,
    tenant: str | None,
) -> None:
    """Undo migrations: first of the tenants, then of the registry. Tables that go take their rows with them."""
    scope = _scope(options, dsn, registry_only, tenants_only, tenant)
    _report(options, *asyncio.run(_down(scope, to)), "undone")


@migrate.command("status")
@_scope_options
@shared_options
@pass_options
def status(options: Options, *, dsn: str | None, registry_only: bool, tenants_only: bool, tenant: str | None) -> None:
    """Show what is applied and what is pending; changes nothing. The exit code is 1 if something is pending."""
    scope = _scope(options, dsn, registry_only, tenants_only, tenant)
    databases = asyncio.run(_status(scope))
    if options.json:
        show_json({"items": databases})
    else:
        rows = [
            (
                d["database"],
                d["version"],
                d["pending"],
                when(d["applied_at"]),
                state("fail") if d["error"] else "",
                d["error"],
            )
            for d in databases
        ]
        show_table(["database", "version", "pending", "last applied", "", "error"], rows)
    if any(each["pending"] or each["error"] for each in databases):
        click.get_current_context().exit(FAILED)


@migrate.command("seed")
@click.argument("slug", type=SLUG)
@click.option("--dsn", help="Address of the registry database as nexarch_core; or NEXARCH_REGISTRY_DSN.")
@shared_options
@pass_options
def seed_tenant(options: Options, *, slug: str, dsn: str | None) -> None:
    """Put a little sample data for development into a tenant: a folder, a document, a tag, fields with values.

    Run again, it changes nothing.
    """
    scope = _scope(options, dsn, registry_only=False, tenants_only=False, tenant=slug)
    asyncio.run(_seed(scope))
    if options.json:
        show_json({"database": slug, "seeded": True})
    else:
        show_line(f"The sample data are in the database of {slug}.")


async def _seed(scope: _Scope) -> None:
    async with _registry(scope.dsn) as registry:
        (tenant,) = await _tenants(registry, scope)
    with reaching(f"The database of {tenant.slug}"):
        conn = await connect(database_dsn(scope.dsn, tenant.database_name), application_name="nexarch-seed")
    try:
        await seed(conn)
    except asyncpg.UndefinedTableError as error:
        raise Failure(f"The database of {tenant.slug} has no schema yet.", hint="Run `nexarch migrate up`.") from error
    finally:
        await conn.close()


async def _up(scope: _Scope) -> tuple[list[int] | None, list[TenantMigrated]]:
    async with _registry(scope.dsn) as registry:
        versions = await migrate_up(registry, read_migrations("registry")) if scope.registry else None
        tenants = await _tenants(registry, scope)
    return versions, await _walk(scope.dsn, tenants, read_migrations("tenant"), None)


async def _down(scope: _Scope, to: int | None) -> tuple[list[int] | None, list[TenantMigrated]]:
    async with _registry(scope.dsn) as registry:
        tenants = await _tenants(registry, scope)
        files = read_migrations("tenant")
        outcomes = await _walk(scope.dsn, tenants, files, _target_version(files, to))
        if not scope.registry or any(outcome.error for outcome in outcomes):
            return None, outcomes
        files = read_migrations("registry")
        return await migrate_down(registry, files, to=_target_version(files, to)), outcomes


def _target_version(files: Sequence[Migration], to: int | None) -> int:
    return max(len(files) - 1, 0) if to is None else to


async def _walk(
    dsn: str, tenants: Sequence[TenantDatabase], files: Sequence[Migration], down_to: int | None
) -> list[TenantMigrated]:
    outcomes = []
    with count_progress() as bar:
        task = bar.add_task("tenants", total=len(tenants))
        async for outcome in migrate_tenants(dsn, tenants, files, down_to=down_to):
            outcomes.append(outcome)
            bar.advance(task)
    return sorted(outcomes, key=lambda outcome: outcome.slug)


async def _status(scope: _Scope) -> list[dict[str, Any]]:
    databases = []
    async with _registry(scope.dsn) as registry:
        if scope.registry:
            databases.append(await _status_of(registry, "registry", read_migrations("registry")))
        files = read_migrations("tenant")
        for tenant in await _tenants(registry, scope):
            databases.append(await _tenant_status(scope.dsn, tenant, files))  # noqa: PERF401 - one after the other
    return databases


async def _tenant_status(dsn: str, tenant: TenantDatabase, files: Sequence[Migration]) -> dict[str, Any]:
    try:
        with reaching(f"The database of {tenant.slug}"):
            conn = await connect(database_dsn(dsn, tenant.database_name), application_name="nexarch-migrate")
    except Failure as failure:
        return _entry(tenant.slug, error=str(failure))
    try:
        return await _status_of(conn, tenant.slug, files)
    finally:
        await conn.close()


async def _status_of(conn: Connection, database: str, files: Sequence[Migration]) -> dict[str, Any]:
    try:
        migrations = await migration_status(conn, files)
    except MigrationRefused as error:
        return _entry(database, error=str(error))
    applied = [m for m in migrations if m.applied_at is not None]
    last = applied[-1].applied_at if applied else None
    return _entry(
        database,
        version=len(applied),
        pending=len(migrations) - len(applied),
        applied_at=None if last is None else last.isoformat(),
    )


def _entry(
    database: str,
    *,
    version: int | None = None,
    pending: int | None = None,
    applied_at: str | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    return {"database": database, "version": version, "pending": pending, "applied_at": applied_at, "error": error}


@asynccontextmanager
async def _registry(dsn: str) -> AsyncIterator[Connection]:
    """A connection to the registry; what goes wrong there ends the command with one line."""
    with reaching("The registry database"):
        conn = await connect(dsn, application_name="nexarch-migrate")
    try:
        yield conn
    except MigrationRefused as error:
        raise Failure(str(error), code="migration-refused") from error
    except asyncpg.PostgresError as error:
        raise Failure(f"The registry was not migrated further: {error}.") from error
    finally:
        await conn.close()


async def _tenants(registry: Connection, scope: _Scope) -> list[TenantDatabase]:
    if not scope.tenants:
        return []
    try:
        tenants = await list_tenant_databases(registry)
    except asyncpg.UndefinedTableError:
        tenants = []  # the registry itself was never migrated
    if scope.tenant is None:
        return tenants
    chosen = [tenant for tenant in tenants if tenant.slug == scope.tenant]
    if not chosen:
        raise NotFound(f"There is no tenant {scope.tenant!r} with a database.")
    return chosen


def _report(options: Options, registry: list[int] | None, tenants: list[TenantMigrated], done: str) -> None:
    failed = [tenant for tenant in tenants if tenant.error is not None]
    if options.json:
        items = [{"database": t.slug, done: t.versions, "error": t.error} for t in tenants]
        if registry is not None:
            items.insert(0, {"database": "registry", done: registry, "error": None})
        show_json({"items": items})
    else:
        rows = [(t.slug, _versions(t.versions), "") for t in tenants if t.error is None]
        if registry is not None:
            rows.insert(0, ("registry", _versions(registry), ""))
        show_table(["database", done], [row[:2] for row in rows], nothing="There is no database to migrate.")
    for tenant in failed:
        note(f"nexarch: tenant {tenant.slug}: {tenant.error}")
    if failed:
        note(f"nexarch: {len(failed)} of {len(tenants)} tenants failed; `nexarch migrate up` goes on with them.")
        click.get_current_context().exit(FAILED)


def _versions(versions: list[int]) -> str:
    return ", ".join(f"{version:04}" for version in versions) or "nothing to do"
