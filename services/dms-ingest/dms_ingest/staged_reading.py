"""Reading the staged bytes of an upload once, in order, with their SHA-256 at the end."""

import asyncio
from collections.abc import AsyncGenerator
from hashlib import sha256 as new_digest

from dms_ingest.running_digest import RunningDigest, Trail
from dms_ingest.sealed_file import SealedFile
from dms_ingest.upload_sessions import Session
from nexarch.errors import Invalid
from nexarch.threads import run_in_thread


class DigestMismatch(Invalid):
    """The staged bytes have another SHA-256 than the one announced; send them again, or end the upload."""

    code = "digest-mismatch"
    title = "The file has another digest"


class OtherBytes(Exception):
    """The staged bytes are not those that were hashed as they came: another process wrote some. Read again."""


class StagedReading:
    """One reading. With `known`, the digest of what came, nothing is hashed; `sha256` is there after the last chunk."""

    def __init__(self, file: SealedFile, session: Session, known: RunningDigest | None) -> None:
        self._file = file
        self._size = session.size_bytes
        self._announced = session.sha256
        self._known = known
        self._trail = Trail()
        self._hash = new_digest() if known is None else None
        self.sha256: bytes

    async def chunks(self, pair: tuple[memoryview, memoryview]) -> AsyncGenerator[memoryview, None]:
        """Yield the bytes in one of the two buffers, while the next ones come into the other.

        May end with DigestMismatch, BytesLost and, with `known`, OtherBytes: what was yielded must not be kept then.
        """
        current, following = pair
        offset = 0
        reading = asyncio.create_task(run_in_thread(self._read, current, offset))
        try:
            while count := await reading:
                offset += count
                reading = asyncio.create_task(run_in_thread(self._read, following, offset))
                yield current[:count]
                current, following = following, current
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        self.sha256 = await run_in_thread(self._digest)
        if self._announced is not None and self.sha256 != self._announced:
            raise DigestMismatch(
                "The bytes that came have another SHA-256 than the one announced.",
                announced=self._announced.hex(),
                received=self.sha256.hex(),
            )

    def _read(self, buffer: memoryview, offset: int) -> int:
        part = buffer[: self._size - offset]
        self._file.read_into(part, offset, self._trail)
        if self._hash is not None:
            self._hash.update(part)
        return len(part)

    def _digest(self) -> bytes:
        if self._hash is not None:
            return self._hash.digest()
        assert self._known is not None
        if self._known.trail() != self._trail.digest():
            raise OtherBytes
        return self._known.digest()
