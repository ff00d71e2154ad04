"""Where the bytes of documents lie. `open_storage` gives a service the store that its settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nexarch.storage.contract import (
    BucketNotFound,
    Chunk,
    Listing,
    NoSignedUrl,
    ObjectExists,
    ObjectNotFound,
    Storage,
    StorageAway,
    StorageRefused,
    StoredObject,
    UnsafeKey,
    ids_in_key,
    revision_key,
)
from nexarch.storage.local import LocalStorage
from nexarch.storage.settings import StorageSettings

__all__ = [
    "BucketNotFound",
    "Chunk",
    "Listing",
    "NoSignedUrl",
    "ObjectExists",
    "ObjectNotFound",
    "Storage",
    "StorageAway",
    "StorageRefused",
    "StorageSettings",
    "StoredObject",
    "UnsafeKey",
    "ids_in_key",
    "open_storage",
    "revision_key",
]


@asynccontextmanager
async def open_storage(settings: StorageSettings) -> AsyncIterator[Storage]:
    """Open the object store for the life of a service; OSError where its folder cannot be made."""
    if settings.storage_driver == "s3":
        # Half a second and 20 MiB, which only those pay who use it.
        from nexarch.storage.s3 import open_s3  # noqa: PLC0415

        async with open_s3(settings) as storage:
            yield storage
        return
    assert settings.storage_dir is not None  # the settings see to it
    local = LocalStorage(settings.storage_dir)
    try:
        yield local
    finally:
        local.close()
