"""Modules: the services that work for tenants, and for which tenants they may.

A module is active for a tenant when it is registered and all its required flags are on for that tenant.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import asyncpg

from core_api.changes import announce_change
from core_api.tenants import NoSuchTenant, check_active
from nexarch import channels
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, Forbidden, NotFound

ID = r"^[a-z][a-z0-9_]{0,62}$"
VERSION = r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$"


class Scope(StrEnum):
    """What a module may ask for, beside what every module may."""

    DATABASE = "database"  # the address of tenants' databases, with the password of their roles
    KEK = "kek"  # tenants' keys
    USAGE = "usage"  # reports of tenants' usage


class NoSuchModule(NotFound):
    """No module of this id is registered."""

    code = "module-not-found"
    title = "There is no such module"


class ModuleExists(Conflict):
    """A module of this id is registered already; PUT changes it."""

    code = "module-exists"
    title = "The module is registered already"


class ModulePrefixTaken(Conflict):
    """One module's id followed by `_` begins another's, so that their metrics would share names."""

    code = "module-prefix-taken"
    title = "The module's id collides with another one's"


class ModuleNotActive(Forbidden):
    """A flag that the module requires is off for this tenant; the member `flags_off` lists them."""

    code = "module-not-active"
    title = "The module is not active for this tenant"


class ScopeMissing(Forbidden):
    """The module is not meant to ask for this; the member `right` names the scope that it lacks."""

    code = "scope-missing"
    title = "The module has no right to this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One row of `modules`; `base_url` and `announced_at` come from the module itself."""

    id: str
    version: str
    required_flags: list[str]
    scopes: list[str]
    base_url: str | None
    created_at: datetime
    announced_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A module's standing with one tenant: active when no required flag is off."""

    tenant_id: UUID
    tenant_status: str
    scopes: list[str]
    flags_off: list[str]


async def register_module(
    conn: Connection, module_id: str, version: str, required_flags: Sequence[str], scopes: Collection[Scope] = ()
) -> Module:
    """Add a module; `ModuleExists`, `ModulePrefixTaken`."""
    sql = """
        INSERT INTO modules (id, version, required_flags, scopes)
        VALUES ($1, $2, $3, $4)
        RETURNING id, version, required_flags, scopes, base_url, created_at, announced_at
    """
    async with _writing(conn, module_id):
        return await fetch_one(conn, Module, sql, module_id, version, sorted(set(required_flags)), sorted(set(scopes)))


async def replace_module(
    conn: Connection,
    module_id: str,
    version: str,
    required_flags: Sequence[str],
    scopes: Collection[Scope] | None = None,
) -> Module:
    """Change a module's version, required flags and scopes, which stay as they are for None; `NoSuchModule`."""
    sql = """
        UPDATE modules
           SET version = $2, required_flags = $3, scopes = coalesce($4, scopes)
         WHERE id = $1
        RETURNING id, version, required_flags, scopes, base_url, created_at, announced_at
    """
    wanted = None if scopes is None else sorted(set(scopes))
    async with _writing(conn, module_id):
        module = await fetch_optional(conn, Module, sql, module_id, version, sorted(set(required_flags)), wanted)
    if module is None:
        raise NoSuchModule(f"There is no module {module_id!r}.", module=module_id)
    return module


@asynccontextmanager
async def _writing(conn: Connection, module_id: str) -> AsyncIterator[None]:
    try:
        async with conn.transaction():
            yield
            await announce_change(conn, channels.MODULES, module_id)
    except asyncpg.UniqueViolationError as error:
        raise ModuleExists(f"The module {module_id!r} is registered already.", module=module_id) from error
    except asyncpg.CheckViolationError as error:
        if error.constraint_name != "modules_no_prefix":
            raise
        raise ModulePrefixTaken(
            f"The metrics of {module_id!r} and of another module would share names.", module=module_id
        ) from error


async def get_module(conn: Connection, module_id: str) -> Module:
    """One module; `NoSuchModule`."""
    sql = """
        SELECT id, version, required_flags, scopes, base_url, created_at, announced_at
          FROM modules
         WHERE id = $1
    """
    module = await fetch_optional(conn, Module, sql, module_id)
    if module is None:
        raise NoSuchModule(f"There is no module {module_id!r}.", module=module_id)
    return module


async def list_modules(conn: Connection, *, after: str, limit: int) -> list[Module]:
    """The next `limit` modules by id, after an id ('' for the first page)."""
    sql = """
        SELECT id, version, required_flags, scopes, base_url, created_at, announced_at
          FROM modules
         WHERE id > $1
         ORDER BY id
         LIMIT $2
    """
    return await fetch_all(conn, Module, sql, after, limit)


async def announce(conn: Connection, module_id: str, version: str, base_url: str) -> Module:
    """Note what a running module says of itself; `NoSuchModule`."""
    sql = """
        UPDATE modules
           SET version = $2, base_url = $3, announced_at = now()
         WHERE id = $1
        RETURNING id, version, required_flags, scopes, base_url, created_at, announced_at
    """
    module = await fetch_optional(conn, Module, sql, module_id, version, base_url)
    if module is None:
        raise NoSuchModule(f"There is no module {module_id!r}.", module=module_id)
    return module


async def get_activation(conn: Connection, module_id: str, slug: str) -> Activation:
    """How a module stands with a tenant; `NoSuchModule`, `NoSuchTenant`."""
    sql = """
        SELECT tenants.id AS tenant_id, tenants.status AS tenant_status, modules.scopes,
               ARRAY(SELECT required
                       FROM unnest(modules.required_flags) AS required
                      WHERE NOT EXISTS (SELECT FROM feature_flags WHERE key = required AND enabled_for_all)
                        AND NOT EXISTS (SELECT
                                          FROM flag_tenants
                                         WHERE flag_key = required AND flag_tenants.tenant_id = tenants.id)
                      ORDER BY required) AS flags_off
          FROM modules CROSS JOIN tenants
         WHERE modules.id = $1 AND tenants.slug = $2
    """
    activation = await fetch_optional(conn, Activation, sql, module_id, slug)
    if activation is None:
        await get_module(conn, module_id)
        raise NoSuchTenant(slug)
    return activation


async def admit(conn: Connection, module_id: str, slug: str, scope: Scope) -> UUID:
    """The id of a tenant that a module may work for at this moment, and ask such a thing of.

    `NoSuchTenant`, `TenantUnfinished`, `TenantSuspended`, `ModuleNotActive`, `ScopeMissing`.
    """
    activation = await get_activation(conn, module_id, slug)
    check_active(slug, activation.tenant_status)
    if activation.flags_off:
        raise ModuleNotActive(
            f"The module {module_id!r} is not active for the tenant {slug!r}.",
            module=module_id,
            tenant=slug,
            flags_off=list(activation.flags_off),
        )
    if scope not in activation.scopes:
        raise ScopeMissing(f"This call needs the right: {scope}.", right=scope, module=module_id)
    return activation.tenant_id
