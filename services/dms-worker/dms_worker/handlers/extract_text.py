"""`extract_text`: open a revision, take its text in a child process, make it searchable.

A file that cannot be read is no fault of the worker: the job ends at once as a dead letter, the revision says
`failed` with the reason, and the original stays as it is.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import structlog

from dms_worker import revisions
from dms_worker.extract.errors import Unreadable
from dms_worker.extract.limits import Limits
from dms_worker.extract.runner import ExtractedText, extract_text
from dms_worker.job_types import DeadJob, JobContext, PermanentError
from dms_worker.revisions import StoredRevision
from nexarch.core_client import CoreClient, KeyShredded
from nexarch.crypto.envelope import SealBroken, unwrap_dek
from nexarch.crypto.layout import ObjectDamaged
from nexarch.errors import NotFound
from nexarch.job_types import ExtractText
from nexarch.jobs import JobError
from nexarch.objects import open_object, revision_aad
from nexarch.storage import ObjectNotFound, Storage
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

# What a person is told when the fault is ours and every attempt was used up.
_GAVE_UP = JobError("processing-failed", "The document could not be processed. Its original is safe; try again later.")


@dataclass(frozen=True, slots=True)
class TextExtraction:
    """The handler and what it works with."""

    core: CoreClient
    storage: Storage
    tenants: TenantPools
    limits: Limits

    async def run(self, ctx: JobContext) -> None:
        """Take the text of one revision; done twice, the result is the same."""
        payload = ExtractText.model_validate(ctx.job.payload)
        async with ctx.pool.acquire() as conn:
            revision = await revisions.begin_processing(conn, payload.document_id, payload.revision_id)
        if revision is None:
            log.info("the revision was purged meanwhile", revision_id=str(payload.revision_id))
            return
        try:
            text = await self._extract(ctx.tenant, payload, revision)
            await self._store(ctx, payload.revision_id, text)
        except _LostMeanwhile:
            log.warning("the job was lost meanwhile; its result is not written")
        except PermanentError:
            raise
        except Exception:  # whatever it was, the revision waits for the next attempt; `gave_up` marks it after the last
            async with ctx.pool.acquire() as conn:
                await revisions.mark_queued(conn, payload.revision_id)
            raise

    async def gave_up(self, dead: DeadJob, error: JobError) -> None:
        """In the transaction that makes the job a dead letter: the revision says why."""
        payload = ExtractText.model_validate(dead.job.payload)
        shown = error if error.code in _SHOWN_CODES else _GAVE_UP
        await revisions.mark_failed(dead.conn, payload.revision_id, shown.code, shown.detail)

    async def _extract(self, tenant: str, payload: ExtractText, revision: StoredRevision) -> ExtractedText:
        # An unnamed file: it vanishes with this process, however that ends, and nobody else can open it by name.
        with tempfile.TemporaryFile() as file:
            try:
                await self._decrypt(tenant, payload, revision, file)
                return await extract_text(
                    Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"), revision.mime_type, self.limits
                )
            except Unreadable as error:
                raise PermanentError(error.code, error.detail) from error
            except (ObjectDamaged, SealBroken, ObjectNotFound, NotFound, KeyShredded) as error:  # NotFound: the key
                log.exception("the stored object cannot be opened", revision_id=str(payload.revision_id))
                raise PermanentError(
                    "stored-object-unreadable", "The stored file cannot be opened. An operator must look at it."
                ) from error

    async def _decrypt(self, tenant: str, payload: ExtractText, revision: StoredRevision, file: BinaryIO) -> None:
        tenant_id = await self.tenants.tenant_id(tenant)
        key = await self.core.kek(tenant, revision.kek_version)
        dek = unwrap_dek(
            key.kek,
            revision.wrapped_dek,
            tenant_id=tenant_id,
            revision_id=payload.revision_id,
            kek_version=revision.kek_version,
        )
        async with open_object(
            self.storage,
            tenant,
            revision.storage_key,
            dek=dek,
            aad=revision_aad(tenant_id, payload.document_id, payload.revision_id, revision.storage_key),
            plaintext_size=revision.size_bytes,
        ) as chunks:
            async for chunk in chunks:
                await run_in_thread(file.write, chunk)
        await run_in_thread(file.flush)

    async def _store(self, ctx: JobContext, revision_id: UUID, text: ExtractedText) -> None:
        """Result and end of the job in one transaction, so that who lost the job writes nothing: _LostMeanwhile.

        The text comes first: it takes seconds, and completing locks the job's row until the commit. Meanwhile nobody
        could cancel the job, and no heartbeat could renew its lock.
        """
        async with ctx.pool.acquire() as conn, conn.transaction():
            await revisions.store_text(conn, revision_id, "\n\n".join(text.pages))
            if not await ctx.complete(conn):
                raise _LostMeanwhile
            await revisions.mark_processed(conn, revision_id, text.page_count)


class _LostMeanwhile(Exception):
    """Another worker has the job: what was written is rolled back."""


_SHOWN_CODES = {
    "stored-object-unreadable",
    "worker-lost",
    "cancelled",
    *(error.code for error in Unreadable.__subclasses__()),
}
