"""The second part of a store's check: objects are opened with the key in their row, and compared with its SHA-256."""

import hashlib
from dataclasses import dataclass
from uuid import UUID

from dms_worker.store_listing import is_missing
from dms_worker.stored_objects import SealedObject
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import SealBroken, unwrap_dek
from nexarch.crypto.layout import ObjectDamaged
from nexarch.errors import NotFound
from nexarch.objects import open_object, revision_aad
from nexarch.storage import ObjectNotFound, Storage
from nexarch.store_checks import Finding
from nexarch.threads import run_in_thread


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads objects of one tenant; the tenant's key is asked for each time and kept nowhere."""

    core: CoreClient
    storage: Storage
    tenant: str
    tenant_id: UUID

    async def fault(self, sealed: SealedObject) -> Finding | None:
        """What is wrong with an object; None: it is what it must be.

        Whatever may be the fault of something else is raised: a store or core-api that is away, KeyRetired for a row
        that was wrapped anew since it was read.
        """
        try:
            dek = await self._dek(sealed)
        except (NotFound, SealBroken):
            return Finding.KEY
        try:
            digest = await self._digest(sealed, dek)
        except ObjectDamaged:
            return Finding.CONTENT
        except ObjectNotFound:
            if not await is_missing(self.storage, self.tenant, sealed.storage_key):
                raise
            return Finding.MISSING
        return None if digest == sealed.checksum_sha256 else Finding.CONTENT

    async def _dek(self, sealed: SealedObject) -> bytes:
        key = await self.core.kek(self.tenant, sealed.kek_version)
        return unwrap_dek(
            key.kek,
            sealed.wrapped_dek,
            tenant_id=self.tenant_id,
            revision_id=sealed.revision_id,
            kek_version=sealed.kek_version,
        )

    async def _digest(self, sealed: SealedObject, dek: bytes) -> bytes:
        """SHA-256 of the plaintext; in threads, a piece at a time, so that the loop is free for other jobs."""
        digest = hashlib.sha256()
        async with open_object(
            self.storage,
            self.tenant,
            sealed.storage_key,
            dek=dek,
            aad=revision_aad(self.tenant_id, sealed.document_id, sealed.revision_id, sealed.storage_key),
            plaintext_size=sealed.size_bytes,
        ) as chunks:
            async for chunk in chunks:
                await run_in_thread(digest.update, chunk)
        return digest.digest()
