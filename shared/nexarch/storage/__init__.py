"""Where the bytes of documents lie. `open_storage` gives a service the store that its settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from nexarch.storage.contract import (
    BucketNotFound,
    Chunk,
    ObjectNotFound,
    Storage,
    UnsafeKey,
    ids_in_key,
    revision_key,
)
from nexarch.storage.local import LocalStorage

__all__ = [
    "BucketNotFound",
    "Chunk",
    "ObjectNotFound",
    "Storage",
    "StorageSettings",
    "UnsafeKey",
    "ids_in_key",
    "open_storage",
    "revision_key",
]


class StorageSettings(Protocol):
    """What the settings of a service with an object store say about it."""

    @property
    def storage_dir(self) -> Path:
        """The base folder of the local driver, the same for every service; made if it is missing."""


@asynccontextmanager
async def open_storage(settings: StorageSettings) -> AsyncIterator[Storage]:
    """Open the object store for the life of a service; raises OSError where its folder cannot be made."""
    storage = LocalStorage(settings.storage_dir)
    try:
        yield storage
    finally:
        storage.close()
