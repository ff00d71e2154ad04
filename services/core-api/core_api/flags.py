"""Feature flags: on for all tenants, or for those named; a flag that does not exist is off."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core_api.changes import announce_change
from nexarch import channels
from nexarch.db import Connection, fetch_all, fetch_optional
from nexarch.errors import Invalid, Json, NotFound

KEY = r"^[A-Za-z0-9._-]{1,128}$"


class NoSuchFlag(NotFound):
    """There is no flag of this key; asked whether it is on, the answer would be no."""

    code = "flag-not-found"
    title = "There is no such flag"


class UnknownTargets(Invalid):
    """Some of the tenants named as targets do not exist; the member `tenants` lists them."""

    code = "flag-targets-unknown"
    title = "Some of the tenants do not exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One row of `feature_flags` with the slugs of the tenants it is on for beside `enabled_for_all`."""

    key: str
    enabled_for_all: bool
    description: str
    tenants: list[str]
    created_at: datetime
    updated_at: datetime


async def set_flag(
    conn: Connection, key: str, *, enabled_for_all: bool, description: str, tenants: Sequence[str]
) -> Flag:
    """Make a flag or replace all of it; `UnknownTargets` changes nothing."""
    async with conn.transaction():
        await _upsert(conn, key, enabled_for_all, description)
        await _clear_targets(conn, key)
        await _add_targets(conn, key, tenants)
        await announce_change(conn, channels.FLAGS, key)
        return await get_flag(conn, key)


async def add_flag_for_all(conn: Connection, key: str, description: str) -> None:
    """Make a flag that is on for all; one that exists stays as operators set it."""
    sql = """
        INSERT INTO feature_flags (key, enabled_for_all, description)
        VALUES ($1, true, $2)
        ON CONFLICT (key) DO NOTHING
    """
    await conn.execute(sql, key, description)


async def get_flag(conn: Connection, key: str) -> Flag:
    """One flag; `NoSuchFlag`."""
    sql = """
        SELECT key, enabled_for_all, description, created_at, updated_at,
               ARRAY(SELECT slug
                       FROM flag_tenants JOIN tenants ON tenants.id = tenant_id
                      WHERE flag_key = key
                      ORDER BY slug) AS tenants
          FROM feature_flags
         WHERE key = $1
    """
    flag = await fetch_optional(conn, Flag, sql, key)
    if flag is None:
        raise NoSuchFlag(f"There is no flag {key!r}.", key=key)
    return flag


async def list_flags(conn: Connection, *, after: str, limit: int) -> list[Flag]:
    """The next `limit` flags by key, after a key ('' for the first page)."""
    sql = """
        SELECT key, enabled_for_all, description, created_at, updated_at,
               ARRAY(SELECT slug
                       FROM flag_tenants JOIN tenants ON tenants.id = tenant_id
                      WHERE flag_key = key
                      ORDER BY slug) AS tenants
          FROM feature_flags
         WHERE key > $1
         ORDER BY key
         LIMIT $2
    """
    return await fetch_all(conn, Flag, sql, after, limit)


async def delete_flag(conn: Connection, key: str) -> None:
    """Remove a flag, so that it is off everywhere; `NoSuchFlag`."""
    async with conn.transaction():
        removed = await conn.fetchval("DELETE FROM feature_flags WHERE key = $1 RETURNING key", key)
        if removed is None:
            raise NoSuchFlag(f"There is no flag {key!r}.", key=key)
        await announce_change(conn, channels.FLAGS, key)


async def is_on(conn: Connection, key: str, slug: str) -> bool:
    """Whether a flag is on for a tenant; False for an unknown flag."""
    sql = """
        SELECT EXISTS (SELECT FROM feature_flags WHERE key = $1 AND enabled_for_all)
            OR EXISTS (SELECT
                         FROM flag_tenants JOIN tenants ON tenants.id = tenant_id
                        WHERE flag_key = $1 AND slug = $2)
    """
    return bool(await conn.fetchval(sql, key, slug))


async def _upsert(conn: Connection, key: str, enabled_for_all: bool, description: str) -> None:
    sql = """
        INSERT INTO feature_flags (key, enabled_for_all, description)
        VALUES ($1, $2, $3)
        ON CONFLICT (key) DO UPDATE
           SET enabled_for_all = excluded.enabled_for_all, description = excluded.description, updated_at = now()
    """
    await conn.execute(sql, key, enabled_for_all, description)


async def _clear_targets(conn: Connection, key: str) -> None:
    await conn.execute("DELETE FROM flag_tenants WHERE flag_key = $1", key)


async def _add_targets(conn: Connection, key: str, slugs: Sequence[str]) -> None:
    sql = """
        WITH wanted AS (
            SELECT DISTINCT slug, tenants.id
              FROM unnest($2::text[]) AS wanted (slug) LEFT JOIN tenants USING (slug)
        ), added AS (
            INSERT INTO flag_tenants (flag_key, tenant_id)
            SELECT $1, id FROM wanted WHERE id IS NOT NULL
        )
        SELECT slug FROM wanted WHERE id IS NULL ORDER BY slug
    """
    unknown: list[Json] = [record["slug"] for record in await conn.fetch(sql, key, list(slugs))]
    if unknown:  # the transaction of `set_flag` takes all of it back
        raise UnknownTargets("Some of the tenants named do not exist.", tenants=unknown)
