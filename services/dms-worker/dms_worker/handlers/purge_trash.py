"""`purge_trash`: remove for good what has been in a tenant's trash for as long as its settings say.

Rows and usage go in transactions of some documents each, objects after each commit. What is cut short goes on in the
next attempt or period: documents by their rows, objects by those in `doomed_objects`, also those that a service that
died left behind. Who restores a document at the same moment is not waited for: it is passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from dms_worker.job_types import JobContext
from nexarch.db import Connection
from nexarch.purge import delete_objects, doomed_objects, forget_doomed, purge_documents
from nexarch.storage import Storage

_BATCH = 50  # documents in one transaction
_OBJECTS = 500  # keys read at once

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TrashPurge:
    """The handler and what it works with."""

    storage: Storage

    async def run(self, ctx: JobContext) -> None:
        """Remove what is due, then whatever the store has not given up yet."""
        documents = 0
        while removed := await self._some_documents(ctx):
            documents += removed
        objects = await self._doomed(ctx)
        if documents or objects:
            log.info("trash purged", documents=documents, objects=objects)

    async def _some_documents(self, ctx: JobContext) -> int:
        async with ctx.pool.acquire() as conn, conn.transaction():
            ids = await _lock_due(conn)
            if ids:
                await purge_documents(conn, ids)
        return len(ids)

    async def _doomed(self, ctx: JobContext) -> int:
        """Give each doomed object one try."""
        count, after = 0, ""
        while True:
            async with ctx.pool.acquire() as conn:
                keys = await doomed_objects(conn, after=after, limit=_OBJECTS)
            if not keys:
                return count
            gone = await delete_objects(self.storage, ctx.tenant, keys)
            async with ctx.pool.acquire() as conn:
                await forget_doomed(conn, gone)
            count += len(gone)
            after = keys[-1]


async def _lock_due(conn: Connection) -> Sequence[UUID]:
    """Lock some documents that are due, those first that were deleted first.

    None in a tenant that keeps its trash until an admin removes it (0 days).
    """
    sql = """
        SELECT d.id
        FROM documents AS d, tenant_settings AS s
        WHERE d.deleted_at <= now() - make_interval(days => nullif(s.trash_days, 0))
        ORDER BY d.deleted_at
        LIMIT $1
        FOR UPDATE OF d SKIP LOCKED
    """
    return [row["id"] for row in await conn.fetch(sql, _BATCH)]
