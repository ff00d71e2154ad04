"""Whether a store can be written to and read."""

import secrets
from collections.abc import AsyncIterator

from nexarch.storage.contract import Chunk, Storage, StorageRefused

PROBE_TENANT = "0probe"  # no slug begins with a digit


async def write_something(storage: Storage) -> None:
    """Put, read and delete a small object; raises what stands against it."""
    key, content = f"probe/{secrets.token_hex(16)}", secrets.token_bytes(64)
    await storage.ensure_bucket(PROBE_TENANT)
    await storage.put(PROBE_TENANT, key, _once(content))
    async with storage.get(PROBE_TENANT, key) as chunks:
        found = b"".join([bytes(chunk) async for chunk in chunks])
    await storage.delete(PROBE_TENANT, key)
    if found != content:
        raise StorageRefused("The object store gives other bytes than it was given.")


async def _once(content: bytes) -> AsyncIterator[Chunk]:
    yield content
