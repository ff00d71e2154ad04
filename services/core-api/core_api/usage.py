"""Usage: how much each tenant stores, told by modules as changes, each applied exactly once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from nexarch.db import Connection, fetch_all
from nexarch.errors import Invalid

METRIC = r"^[a-z][a-z0-9_]{0,62}$"
MAX_DELTAS = 1000  # of one call
MAX_DELTA = 1 << 53  # bytes; more than that is a mistake, and JSON numbers end here


class UsageOverflow(Invalid):
    """A total would leave the range of 64 bits."""

    code = "usage-overflow"
    title = "The usage would overflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A change of one tenant's usage; `id` is the one of the row in the tenant's `usage_outbox`."""

    id: UUID
    tenant_id: UUID
    metric: str
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What a tenant uses of one metric (`storage_bytes`: bytes)."""

    tenant_slug: str
    metric: str
    value: int
    updated_at: datetime


async def apply_deltas(conn: Connection, module_id: str, deltas: Sequence[Delta]) -> int:
    """Apply all changes that were not applied before, in one statement; returns how many these were.

    Rows are taken in one order everywhere, so two calls with common ids wait for each other and never deadlock.
    """
    sql = """
        WITH fresh AS (
            INSERT INTO usage_deltas (id, tenant_id, metric, delta, module_id)
            SELECT id, tenant_id, metric, delta, $1
              FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bigint[]) AS told (id, tenant_id, metric, delta)
             ORDER BY id
            ON CONFLICT (id) DO NOTHING
            RETURNING tenant_id, metric, delta
        ), added AS (
            INSERT INTO usage_totals (tenant_id, metric, value, updated_at)
            SELECT tenant_id, metric, sum(delta), now()
              FROM fresh
             GROUP BY tenant_id, metric
             ORDER BY tenant_id, metric
            ON CONFLICT (tenant_id, metric) DO UPDATE
               SET value = usage_totals.value + excluded.value, updated_at = excluded.updated_at
        )
        SELECT count(*) FROM fresh
    """
    columns = [
        [delta.id for delta in deltas],
        [delta.tenant_id for delta in deltas],
        [delta.metric for delta in deltas],
        [delta.delta for delta in deltas],
    ]
    try:
        return int(await conn.fetchval(sql, module_id, *columns))
    except asyncpg.NumericValueOutOfRangeError as error:
        raise UsageOverflow("A total would leave the range of 64 bits.") from error


async def list_usage(conn: Connection, *, tenant: str | None, after: tuple[str, str], limit: int) -> list[Total]:
    """The next `limit` totals by (slug, metric), of one tenant or of all."""
    sql = """
        SELECT slug AS tenant_slug, metric, value, usage_totals.updated_at
          FROM usage_totals JOIN tenants ON tenants.id = tenant_id
         WHERE (slug, metric) > ($1, $2) AND ($3::text IS NULL OR slug = $3)
         ORDER BY slug, metric
         LIMIT $4
    """
    return await fetch_all(conn, Total, sql, *after, tenant, limit)


async def recount(conn: Connection, tenant_id: UUID) -> int:
    """Set a tenant's totals to the sums of the changes that were applied; return by how much `storage_bytes` was off.

    Call it in a transaction.
    """
    await _hold_totals(conn, tenant_id)
    return await _sum_up(conn, tenant_id)


async def _hold_totals(conn: Connection, tenant_id: UUID) -> None:
    """In a statement of its own: only the next one sees the changes of those who held them before."""
    await conn.execute("SELECT FROM usage_totals WHERE tenant_id = $1 ORDER BY metric FOR UPDATE", tenant_id)


async def _sum_up(conn: Connection, tenant_id: UUID) -> int:
    sql = """
        WITH right_totals AS (
            UPDATE usage_totals AS total
               SET value = applied.value, updated_at = now()
              FROM (SELECT metric, sum(delta)::bigint AS value FROM usage_deltas WHERE tenant_id = $1 GROUP BY metric)
                   AS applied
             WHERE total.tenant_id = $1 AND total.metric = applied.metric AND total.value <> applied.value
            RETURNING total.metric, new.value - old.value AS delta
        )
        SELECT coalesce(sum(delta), 0)::bigint FROM right_totals WHERE metric = 'storage_bytes'
    """
    delta: int = await conn.fetchval(sql, tenant_id)
    return delta
