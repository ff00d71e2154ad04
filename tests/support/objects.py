"""A tenant's bucket and a key in it, what is put there, and what lies there."""

from collections.abc import AsyncIterator

from nexarch.storage import Chunk, Storage

TENANT = "acme"
KEY = "documents/0198c0de/revisions/1"


async def stream(*chunks: Chunk) -> AsyncIterator[Chunk]:
    """Chunks as `put` takes them."""
    for chunk in chunks:
        yield chunk


async def content(storage: Storage, key: str = KEY, *, start: int = 0, stop: int | None = None) -> bytes:
    """All bytes of an object, or those of a range."""
    async with storage.get(TENANT, key, start=start, stop=stop) as chunks:
        return b"".join([bytes(chunk) async for chunk in chunks])
