"""Sealed objects in a store: streams in and out, a bounded number of bytes in memory, the work in threads.

What is sealed how is said by `nexarch.crypto`, where it lies by `nexarch.storage`; here they meet.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from uuid import UUID

from nexarch.crypto.layout import NXO1, object_aad
from nexarch.crypto.segments import Opener, Sealer
from nexarch.storage import Chunk, Storage, ids_in_key
from nexarch.threads import run_in_thread


async def seal_stream(sealer: Sealer, chunks: AsyncIterator[Chunk]) -> AsyncIterator[memoryview]:
    """Yield the object whose plaintext comes in `chunks`, for `Storage.put`.

    Each view is good until the next is asked for. Chunks of about 1 MiB are fastest; all may share one buffer, which
    is read only until the next chunk is asked for.
    """
    buffer = memoryview(bytearray(sealer.bound(0)))
    async for chunk in chunks:
        size = memoryview(chunk).nbytes
        if len(buffer) < sealer.bound(size):
            buffer = memoryview(bytearray(sealer.bound(size)))
        yield buffer[: await run_in_thread(sealer.update_into, chunk, buffer)]
    yield buffer[: await run_in_thread(sealer.finish_into, buffer)]


def revision_aad(tenant_id: UUID, document_id: UUID, revision_id: UUID, storage_key: str) -> bytes:
    """Return what the object of a revision is bound to; tenant, document and revision are those of the request.

    Several revisions may refer to one object: it stays bound to the revision that it was sealed for, which its key
    names. The key comes from the row and need not be believed: the DEK beside it is wrapped for the revision of the
    request, and of all objects it opens only the one that it was made for. The revision's own object is bound to the
    request alone.
    """
    sealed_document, sealed_revision = ids_in_key(storage_key)
    if sealed_revision == revision_id:
        return object_aad(tenant_id, document_id, revision_id)
    return object_aad(tenant_id, sealed_document, sealed_revision)


@asynccontextmanager
async def open_object(
    storage: Storage,
    tenant: str,
    key: str,
    *,
    dek: bytes,
    aad: bytes,
    plaintext_size: int,
    start: int = 0,
    stop: int | None = None,
) -> AsyncIterator[AsyncIterator[memoryview]]:
    """Open the plaintext bytes from `start` up to but without `stop` of a sealed object.

    `plaintext_size` is what the row says; `aad` comes from `revision_aad`. Raises on entering ObjectNotFound, and
    ObjectDamaged where size, header or the first bytes are wrong, so that a response can still say so. Damage further
    on is raised by the iterator: break the transfer then. A chunk is good until the next one is asked for; that is
    made meanwhile, in a second buffer.
    """
    stored_size = await storage.head(tenant, key)
    opener = Opener(dek, aad, stored_size=stored_size, plaintext_size=plaintext_size, start=start, stop=stop)
    async with aclosing(_ahead(_plaintext(storage, tenant, key, opener))) as chunks:
        first = await anext(chunks, None)
        yield _with_first(first, chunks)


async def _with_first(first: memoryview | None, rest: AsyncIterator[memoryview]) -> AsyncIterator[memoryview]:
    if first is not None:
        yield first
    async for chunk in rest:
        yield chunk


async def _ahead(chunks: AsyncGenerator[memoryview, None]) -> AsyncGenerator[memoryview, None]:
    """Yield the chunks, while the next one is made already; in the end nobody works on one any more."""
    async with aclosing(chunks):
        coming = asyncio.ensure_future(anext(chunks, None))
        try:
            while (chunk := await coming) is not None:
                coming = asyncio.ensure_future(anext(chunks, None))
                # Begin it now: to send a chunk keeps the loop busy just as long as a thread needs for the next one.
                await asyncio.sleep(0)
                yield chunk
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _plaintext(storage: Storage, tenant: str, key: str, opener: Opener) -> AsyncGenerator[memoryview, None]:
    """Yield what each piece of the object opens to, if anything: a segment that is not whole yet opens to nothing.

    Two buffers take turns, so that a view is good until the next but one is asked for.
    """
    span = opener.span
    begin = 0 if span.object_start == NXO1.header_length else span.object_start
    if begin:
        async with storage.get(tenant, key, stop=NXO1.header_length) as header:
            async for piece in header:
                opener.update(piece)
    buffers = [memoryview(b""), memoryview(b"")]

    def open_piece(piece: memoryview) -> memoryview:
        if len(buffers[0]) < opener.bound(len(piece)):
            buffers[0] = memoryview(bytearray(opener.bound(len(piece))))
        return buffers[0][: opener.update_into(piece, buffers[0])]

    async with storage.get(tenant, key, start=begin, stop=span.object_stop, through=open_piece) as chunks:
        async for chunk in chunks:
            if chunk:
                yield chunk
                buffers.reverse()
    opener.finish()
