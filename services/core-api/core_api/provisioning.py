"""Making a tenant: a state machine whose row in the registry says which steps are done.

requested -> role_created -> database_created -> migrated -> key_created -> complete. Each step may be done again, so
whoever finds an unfinished tenant (the client that asks again, or the sweep at start-up) goes on where the last one
died. A session lock per slug lets one maker work at a time; Postgres drops it when that maker dies.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg
import structlog

from core_api.changes import announce_change
from core_api.master_key import MasterKey
from core_api.tenant_keys import create_first_key
from core_api.tenants import Tenant, get_tenant
from nexarch import channels, scram
from nexarch.db import DATABASE_ERRORS, Connection, connect, fetch_one, fetch_optional
from nexarch.errors import Conflict, Invalid, Unavailable
from nexarch.idempotency import IdempotencyKeyReused
from nexarch.migrate import migrate_up, read_migrations
from nexarch.template import ensure_template
from nexarch.tenant_database import admit_role, create_database, database_dsn, identifier

log = structlog.get_logger(__name__)

PASSWORD_PURPOSE = "nexarch/tenant-password/1"  # noqa: S105 - a label

_TURN_TIMEOUT_S = 10

# A statement of a service that runs longer than this is a mistake, and would keep locks and memory meanwhile.
_ROLE_SETTINGS = {
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}


class SlugTaken(Conflict):
    """Another tenant already has this slug, or somebody is making it at this moment."""

    code = "slug-taken"
    title = "The slug is in use"

    def __init__(self, slug: str) -> None:
        super().__init__(f"The slug {slug!r} is in use.", slug=slug)


class InvalidTenant(Invalid):
    """The slug or the name breaks a rule: a name has 1 to 255 characters, no control character and no slash."""

    code = "invalid-tenant"
    title = "The tenant's slug or name is not valid"


class DatabaseNameTaken(Conflict):
    """The server has a database or role of this tenant's name that we did not make for it."""

    code = "database-name-taken"
    title = "The server already has a database or role of this name"


class TemplateBusy(Unavailable):
    """Somebody is connected to the template database, so Postgres refuses to copy it."""

    code = "template-busy"
    title = "The template database is in use"


@dataclass(frozen=True, slots=True)
class Provisioner:
    """What making a tenant needs. `after_step` is told each step when it is recorded."""

    registry_dsn: str = field(repr=False)
    master: MasterKey
    after_step: Callable[[str], None] = lambda step: None
    template_tries: int = 5  # Postgres waits 5 s in each
    # Each maker holds up to three connections, and copies of a database make the disk busy.
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))

    async def create_tenant(self, slug: str, name: str, idempotency_key: str | None = None) -> Tenant:
        """Make a tenant, or finish one that was begun; a complete one is returned to who made it with this key.

        `SlugTaken`, `IdempotencyKeyReused`, `InvalidTenant`, `DatabaseNameTaken`, `TemplateBusy`.
        """
        async with self.places, self._connected() as conn:
            if not await _wait_for_turn(conn, slug):
                raise SlugTaken(slug)
            if not await _request(conn, slug, name, idempotency_key):
                return await _made_before(conn, slug, name, idempotency_key)
            self.after_step("requested")
            return await self._finish(conn, slug)

    async def finish_tenants(self, older_than_s: float) -> list[str]:
        """Finish what others left for longer than this; returns the slugs. A failure is logged, the rest goes on."""
        finished = []
        async with self._connected() as conn:
            for slug in await _unfinished(conn, older_than_s):
                try:
                    if await self._finish_alone(slug):
                        finished.append(slug)
                except Exception:  # whatever is wrong with one tenant's database, the next one is tried
                    log.exception("a tenant cannot be finished", tenant=slug)
        return finished

    async def sweep(self, every_s: float, older_than_s: float) -> None:
        """Finish what others left, again and again; while the registry is away there is nothing to finish."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.finish_tenants(older_than_s)
            except DATABASE_ERRORS as error:
                log.warning("unfinished tenants cannot be looked for", reason=f"{type(error).__name__}: {error}")

    async def _finish_alone(self, slug: str) -> bool:
        """On a connection of its own: the lock of one tenant is let go before the next begins."""
        async with self.places, self._connected() as conn:
            if not await _take_turn(conn, slug):
                return False
            await self._finish(conn, slug)
            return True

    async def _finish(self, conn: Connection, slug: str) -> Tenant:
        steps: dict[str, Callable[[Connection, Tenant], Awaitable[None]]] = {
            "requested": self._create_role,
            "role_created": self._create_database,
            "database_created": self._migrate,
            "migrated": self._create_key,
            "key_created": self._complete,
        }
        tenant = await get_tenant(conn, slug)
        while (step := steps.get(tenant.provision_step)) is not None:
            await step(conn, tenant)
            tenant = await get_tenant(conn, slug)
            self.after_step(tenant.provision_step)
        log.info("tenant complete", tenant=slug)
        return tenant

    async def _create_role(self, conn: Connection, tenant: Tenant) -> None:
        """Role and sealed password in one transaction: there is never one without the other."""
        password = secrets.token_urlsafe(32)
        verifier = scram.scram_verifier(password, scram.RANDOM)
        sealed = self.master.seal(password.encode(), PASSWORD_PURPOSE, tenant.id.bytes)
        role = identifier(f"tenant_{tenant.slug}")
        async with conn.transaction():
            try:
                await conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{verifier}'")
            except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError) as error:
                raise DatabaseNameTaken(f"The server has a role {role} that is not this tenant's.") from error
            # So that core-api may end the role's sessions when the tenant is suspended.
            await conn.execute(f"GRANT {role} TO CURRENT_USER WITH INHERIT TRUE, SET FALSE")
            await conn.execute("UPDATE tenants SET sealed_password = $2 WHERE id = $1", tenant.id, sealed)
            await _record(conn, tenant.id, "role_created")

    async def _create_database(self, conn: Connection, tenant: Tenant) -> None:
        """CREATE DATABASE knows no transaction, so the database carries the id of its tenant as a comment."""
        database = f"tenant_{tenant.slug}"
        template = await ensure_template(self.registry_dsn)
        await self._copy_template(conn, database, template)
        await _claim_database(conn, database, tenant.id)
        await _record(conn, tenant.id, "database_created")

    async def _copy_template(self, conn: Connection, database: str, template: str) -> None:
        """Postgres waits 5 s for sessions in the template to go, then refuses (55006)."""
        for attempt in range(1, self.template_tries + 1):
            try:
                await create_database(conn, database, template=template)
            except asyncpg.ObjectInUseError as error:
                if attempt == self.template_tries:
                    raise TemplateBusy("The template database is in use; try again.", retry_after_s=5) from error
                log.warning("the template database is in use", template=template, attempt=attempt)
            else:
                return

    async def _migrate(self, conn: Connection, tenant: Tenant) -> None:
        """A migration may have landed since the template was made, or while the maker was dead."""
        migrations = read_migrations("tenant")
        database, role = f"tenant_{tenant.slug}", f"tenant_{tenant.slug}"
        dsn = database_dsn(self.registry_dsn, database)
        inside = await connect(dsn, application_name="core-api-provisioning")
        try:
            await migrate_up(inside, migrations)
            await admit_role(inside, role)
        finally:
            await inside.close()
        for setting, value in _ROLE_SETTINGS.items():
            where = f"ROLE {identifier(role)} IN DATABASE {identifier(database)}"
            await conn.execute(f"ALTER {where} SET {setting} = '{value}'")
        async with conn.transaction():
            await conn.execute("UPDATE tenants SET schema_version = $2 WHERE id = $1", tenant.id, len(migrations))
            await _record(conn, tenant.id, "migrated")

    async def _create_key(self, conn: Connection, tenant: Tenant) -> None:
        async with conn.transaction():
            await create_first_key(conn, self.master, tenant.id)
            await _record(conn, tenant.id, "key_created")

    async def _complete(self, conn: Connection, tenant: Tenant) -> None:
        sql = """
            UPDATE tenants
               SET provision_step = 'complete', status = 'active', active_at = now(), updated_at = now()
             WHERE id = $1
        """
        async with conn.transaction():
            await conn.execute(sql, tenant.id)
            await announce_change(conn, channels.TENANTS, tenant.slug)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection of its own: it holds the lock, and copying a database may outlast a pool's time limit."""
        conn = await connect(self.registry_dsn, application_name="core-api-provisioning")
        try:
            yield conn
        finally:
            await conn.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _MadeBefore:
    is_theirs: bool | None  # None: one of the two has no key
    is_same: bool


async def _take_turn(conn: Connection, slug: str) -> bool:
    """Whether nobody else is making this tenant; ours until the connection closes."""
    sql = "SELECT pg_try_advisory_lock(hashtextextended('nexarch tenant ' || $1, 0))"
    return bool(await conn.fetchval(sql, slug))


async def _wait_for_turn(conn: Connection, slug: str) -> bool:
    """The same for who would rather wait a while: until the other maker is done, or the server notices its death."""
    await conn.execute(f"SET lock_timeout = '{_TURN_TIMEOUT_S}s'")
    try:
        await conn.execute("SELECT pg_advisory_lock(hashtextextended('nexarch tenant ' || $1, 0))", slug)
    except asyncpg.LockNotAvailableError:
        return False
    await conn.execute("RESET lock_timeout")
    return True


async def _request(conn: Connection, slug: str, name: str, key: str | None) -> bool:
    """Write the row; whether there is work to do: False for a tenant that is complete."""
    sql = """
        INSERT INTO tenants (slug, name, creation_key)
        VALUES ($1, normalize($2, NFC), $3)
        ON CONFLICT (slug) DO UPDATE SET name = excluded.name, creation_key = excluded.creation_key
                                   WHERE tenants.status = 'provisioning'
        RETURNING id
    """
    try:
        return await conn.fetchval(sql, slug, name, key) is not None
    except asyncpg.UniqueViolationError as error:  # of the key: the slug's conflict is handled above
        raise IdempotencyKeyReused from error
    except asyncpg.CheckViolationError as error:
        raise InvalidTenant("The slug or the name is not one that can be stored.", name=name) from error


async def _made_before(conn: Connection, slug: str, name: str, key: str | None) -> Tenant:
    """The complete tenant, for who made it and did not hear the answer; `SlugTaken`, `IdempotencyKeyReused`."""
    sql = "SELECT creation_key = $2 AS is_theirs, name = normalize($3, NFC) AS is_same FROM tenants WHERE slug = $1"
    before = await fetch_one(conn, _MadeBefore, sql, slug, key, name)
    if not before.is_theirs:
        raise SlugTaken(slug)
    if not before.is_same:
        raise IdempotencyKeyReused
    return await get_tenant(conn, slug)


async def _record(conn: Connection, tenant_id: UUID, step: str) -> None:
    sql = "UPDATE tenants SET provision_step = $2, updated_at = now() WHERE id = $1"
    await conn.execute(sql, tenant_id, step)


async def _unfinished(conn: Connection, older_than_s: float) -> list[str]:
    sql = """
        SELECT slug
          FROM tenants
         WHERE status = 'provisioning' AND updated_at < now() - make_interval(secs => $1)
         ORDER BY updated_at
    """
    return [record["slug"] for record in await conn.fetch(sql, older_than_s)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owned:
    owner: str | None
    is_ours: bool


async def _claim_database(conn: Connection, database: str, tenant_id: UUID) -> None:
    """Mark the database with its tenant's id; `DatabaseNameTaken` if it carries another mark.

    Without a mark it is a fresh copy that its maker died over. With another one it holds somebody's data: of a
    tenant that was deleted, or of a second platform on this server.
    """
    sql = """
        SELECT shobj_description(oid, 'pg_database') AS owner, pg_get_userbyid(datdba) = current_user AS is_ours
          FROM pg_database
         WHERE datname = $1
    """
    mark = f"tenant {tenant_id}"
    found = await fetch_optional(conn, _Owned, sql, database)
    if found is None or not found.is_ours or found.owner not in {None, mark}:
        raise DatabaseNameTaken(f"The server has a database {database} that is not this tenant's.", database=database)
    await conn.execute(f"COMMENT ON DATABASE {identifier(database)} IS '{mark}'")
