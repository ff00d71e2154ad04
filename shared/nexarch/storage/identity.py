"""Which store this is, and whether it can be used: an id that lies in it, written once by who is first.

Two modules that read the same id use the same store, whatever their settings call it; two folders of one name on two
hosts have two ids.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID, uuid4

from nexarch.storage.contract import Chunk, ObjectExists, ObjectNotFound, Storage, StorageRefused

OURS = "0nexarch"  # in the place of a tenant; no slug begins with a digit
_IDENTITY = "store/id"
_MOST = 64  # bytes of an id


async def read_identity(storage: Storage) -> UUID | None:
    """The store's id; None where nobody has written one yet. Raises what stands against reading."""
    try:
        return UUID((await _content(storage, _IDENTITY, _MOST)).decode())
    except ObjectNotFound:
        return None
    except ValueError as error:
        raise StorageRefused(f"The object {_IDENTITY!r} of the store is no id.") from error


async def written_identity(storage: Storage) -> UUID | None:
    """The store's id, written if there is none; the store is written to, read and deleted from in any case."""
    await storage.ensure_bucket(OURS)
    key, content = f"probes/{secrets.token_hex(16)}", secrets.token_bytes(_MOST)
    await storage.put(OURS, key, _once(content))
    found = await _content(storage, key, _MOST)
    await storage.delete(OURS, key)
    if found != content:
        raise StorageRefused("The object store gives other bytes than it was given.")
    identity = await read_identity(storage)
    if identity is None:
        with suppress(ObjectExists):  # another was first
            await storage.put(OURS, _IDENTITY, _once(str(uuid4()).encode()))
        identity = await read_identity(storage)
    return identity


async def _content(storage: Storage, key: str, most: int) -> bytes:
    async with storage.get(OURS, key, stop=most) as chunks:
        return b"".join([bytes(chunk) async for chunk in chunks])


async def _once(content: bytes) -> AsyncIterator[Chunk]:
    yield content
