"""Checks of the tenant's object store: ordered here, done by the workers, and what they have found."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from nexarch import jobs
from nexarch.db import Connection, fetch_all
from nexarch.job_types import CHECK_STORE, CheckStore
from nexarch.store_checks import Scope, StoreCheck, open_check
from nexarch.tracing import current_trace

# Whoever waits for a check waits longer than whoever waits for a document.
_PRIORITY = -10


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFinding:
    """One row of `store_findings`, with the documents that refer to the object, in the trash too."""

    storage_key: str
    kind: str
    found_at: datetime
    document_ids: list[UUID]


async def order_check(conn: Connection, scope: Scope) -> StoreCheck:
    """Queue a check, or see to it that the one of this scope that is not finished goes on.

    Call it in a transaction, arm before it and ring after the commit.
    """
    check = await open_check(conn, scope)
    trace = current_trace()
    await jobs.enqueue(
        conn,
        CHECK_STORE,
        CheckStore(check_id=check.id).model_dump(mode="json"),
        priority=_PRIORITY,
        traceparent=None if trace is None else str(trace),
        queued_key=f"{CHECK_STORE}:{check.id}",
    )
    return check


async def list_checks(conn: Connection, *, before: UUID | None, limit: int) -> list[StoreCheck]:
    """Checks, newest first (ids are UUIDv7), from the one below `before`."""
    sql = """
        SELECT id, scope, phase, position, created_at, finished_at, objects, contents, bytes, orphans_removed,
            orphans_young, leftovers, missing, damaged, unreadable_keys
        FROM store_checks
        WHERE $1::uuid IS NULL OR id < $1
        ORDER BY id DESC
        LIMIT $2
    """
    return await fetch_all(conn, StoreCheck, sql, before, limit)


async def list_findings(conn: Connection, check_id: UUID) -> list[StoreFinding]:
    """What a check has found, in the order of the keys; at most the thousand that are kept."""
    sql = """
        SELECT f.storage_key, f.kind, f.found_at,
            ARRAY(SELECT DISTINCT r.document_id FROM file_revisions AS r WHERE r.storage_key = f.storage_key)
                AS document_ids
        FROM store_findings AS f
        WHERE f.check_id = $1
        ORDER BY f.storage_key
    """
    return await fetch_all(conn, StoreFinding, sql, check_id)
