"""Which object store each module sees: said by the modules themselves, so that two that see different ones find out."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection, fetch_all


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleStore:
    """One row of `module_stores`."""

    module_id: str
    store_id: UUID | None  # lies in the store itself; None where the module finds none
    settings: dict[str, str]  # a fingerprint of each


async def tell_store(conn: Connection, module_id: str, store_id: UUID | None, settings: Mapping[str, str]) -> None:
    """Note what a module sees now."""
    sql = """
        INSERT INTO module_stores (module_id, store_id, settings)
        VALUES ($1, $2, $3)
        ON CONFLICT (module_id)
        DO UPDATE SET store_id = excluded.store_id, settings = excluded.settings, told_at = now()
    """
    await conn.execute(sql, module_id, store_id, dict(settings))


async def other_stores(conn: Connection, module_id: str, within_s: float) -> list[ModuleStore]:
    """What the other modules that reach tenants' data have said lately; one that is silent may not run any more."""
    sql = """
        SELECT module_id, store_id, settings
          FROM module_stores JOIN modules ON modules.id = module_id
         WHERE module_id <> $1 AND 'database' = ANY (scopes) AND told_at > now() - make_interval(secs => $2)
         ORDER BY module_id
    """
    return await fetch_all(conn, ModuleStore, sql, module_id, within_s)
