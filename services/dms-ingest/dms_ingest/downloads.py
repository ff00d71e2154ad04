"""Opening stored revisions: the tenant's KEK from core-api, the DEK from the row, the bytes from the store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from uuid import UUID

from dms_ingest.revisions import SealedRevision, WrappingOutdated
from nexarch.core_client import CoreClient, KeyRetired
from nexarch.crypto.envelope import unwrap_dek
from nexarch.errors import NexarchError, NotFound
from nexarch.objects import open_object, revision_aad
from nexarch.storage import ObjectNotFound, Storage


class ObjectMissing(NexarchError):
    """The revision has a row but no object: an operator must look, the caller can do nothing."""

    code = "object-missing"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    title = "The stored file is missing"


class KeyMissing(NexarchError):
    """core-api has no KEK of the version that the revision was sealed under."""

    code = "key-missing"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    title = "The key of the stored file is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockedRevision:
    """A stored revision with the key of its object, for as long as somebody reads it."""

    storage: Storage
    tenant: str
    storage_key: str
    size_bytes: int
    aad: bytes
    dek: bytes = field(repr=False)

    @asynccontextmanager
    async def open(self, start: int, stop: int) -> AsyncIterator[AsyncIterator[memoryview]]:
        """Open the plaintext from `start` up to but without `stop`.

        Raises ObjectMissing and ObjectDamaged on entering, ObjectDamaged while iterating: break the transfer then.
        """
        try:
            async with open_object(
                self.storage,
                self.tenant,
                self.storage_key,
                dek=self.dek,
                aad=self.aad,
                plaintext_size=self.size_bytes,
                start=start,
                stop=stop,
            ) as chunks:
                yield chunks
        except ObjectNotFound as error:
            raise ObjectMissing("The stored file is missing; the operators know which one.") from error


async def unlock_revision(
    core: CoreClient,
    storage: Storage,
    *,
    tenant: str,
    tenant_id: UUID,
    document_id: UUID,
    revision: SealedRevision,
    read_again: Callable[[], Awaitable[SealedRevision]],
) -> UnlockedRevision:
    """Get the key of a revision's object. The KEK is asked for each time and kept nowhere.

    `tenant`, `tenant_id` and `document_id` come from the request, not from the row, so a row that was swapped with
    another does not open. `read_again` reads the row once more, for when its key was wrapped anew in between.

    Raises KeyMissing, SealBroken, and what `CoreClient.kek` and `read_again` raise.
    """
    try:
        dek = await revision_dek(core, tenant, tenant_id, revision)
    except WrappingOutdated:
        revision = await read_again()
        dek = await revision_dek(core, tenant, tenant_id, revision)
    return UnlockedRevision(
        storage=storage,
        tenant=tenant,
        storage_key=revision.storage_key,
        size_bytes=revision.size_bytes,
        aad=revision_aad(tenant_id, document_id, revision.id, revision.storage_key),
        dek=dek,
    )


async def revision_dek(core: CoreClient, tenant: str, tenant_id: UUID, revision: SealedRevision) -> bytes:
    """The key of the object that a revision refers to.

    KeyMissing, SealBroken, what `CoreClient.kek` raises, and WrappingOutdated: then the row was wrapped anew since it
    was read.
    """
    try:
        key = await core.kek(tenant, revision.kek_version)
    except KeyRetired as error:
        raise WrappingOutdated from error
    except NotFound as error:
        raise KeyMissing("The key of the stored file is missing; the operators know which one.") from error
    return unwrap_dek(
        key.kek, revision.wrapped_dek, tenant_id=tenant_id, revision_id=revision.id, kek_version=revision.kek_version
    )
