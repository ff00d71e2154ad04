"""Files that are put together from parts (tus 1.0, extension concatenation).

The final upload takes the parts' bytes in as if they came over a line, and becomes a document like any other. Who asks
again for the same file of the same parts, because an answer was lost, gets the same upload and document.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import structlog

from dms_ingest.completing import UploadIncomplete
from dms_ingest.receiving import Receiver, UploadLocked
from dms_ingest.sealed_file import BytesLost, SealedFile
from dms_ingest.staging import Busy, StagedFile, Staging
from dms_ingest.staging_keys import StagingKeys
from dms_ingest.upload_sessions import (
    NewSession,
    Session,
    UploadNotFound,
    create_session,
    forget_received,
    get_session,
    give_parts_to,
)
from nexarch.auth import User
from nexarch.errors import Conflict
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

log = structlog.get_logger(__name__)

_PIECE = 1 << 20  # bytes


class PartsUsed(Conflict):
    """A part has become a piece of another file, which has its bytes now; upload it again."""

    code = "parts-used"
    title = "The parts are used up"


async def read_parts(tenants: TenantPools, user: User, ids: Sequence[UUID]) -> list[Session]:
    """The sessions of the parts, in their order.

    Raises UploadNotFound where one is no part of this person, and UploadIncomplete where bytes of one have not come.
    """
    async with tenants.acquire(user.tenant) as conn:
        by_id = {id_: await get_session(conn, user.id, id_) for id_ in dict.fromkeys(ids)}
    for part in by_id.values():
        if part.concat_kind != "partial":
            raise UploadNotFound("There is no such part.")
        if not part.is_whole():
            raise UploadIncomplete("Not all bytes of a part have come.", part=str(part.id))
    return [by_id[id_] for id_ in ids]


class Concatenator:
    """Puts files together from the parts that lie in the staging folder of this process."""

    def __init__(
        self, tenants: TenantPools, staging: Staging, keys: StagingKeys, receiver: Receiver, *, lifetime_s: float
    ) -> None:
        self._tenants = tenants
        self._staging = staging
        self._keys = keys
        self._receiver = receiver
        self._lifetime_s = lifetime_s

    async def concatenate(self, user: User, new: NewSession, parts: Sequence[Session]) -> Session:
        """The final upload with all bytes of its parts, or as it is if it is complete already.

        Raises PartsUsed, UploadLocked, and what `create_session` and receiving raise.
        """
        new = replace(new, concat_kind="final", concat_parts=[part.id for part in parts])
        async with self._tenants.acquire(user.tenant) as conn:
            final = await create_session(
                conn, user.id, new, lifetime_s=self._lifetime_s, idempotency_key=_key(new, parts)
            )
        if final.state != "open" or final.is_whole():
            return final
        if any(part.concat_into is not None for part in parts):
            raise PartsUsed("A part has become a piece of another file; upload it again.")
        async with self._receiver.alone(user.tenant, final.id) as file:
            final = await self._get(user, final.id)
            if final.state == "open":
                reader = _Reader(self._staging, self._keys, user, parts, final.offset())
                try:
                    await self._receiver.receive_into(file, user, final, final.offset(), reader)
                except _PartLost as error:
                    async with self._tenants.acquire(user.tenant) as conn:
                        await forget_received(conn, error.part_id, [error.lost])
                    raise UploadIncomplete(
                        "The disk has lost bytes of a part; send them again.", part=str(error.part_id)
                    ) from error
        return await self._get(user, final.id)

    async def let_go(self, user: User, final: Session, parts: Sequence[Session]) -> None:
        """Remove the bytes of parts whose file is complete; they answer as whole until they expire."""
        async with self._tenants.acquire(user.tenant) as conn:
            await give_parts_to(conn, final.id, [part.id for part in parts])
        for part in parts:
            try:
                await run_in_thread(self._staging.remove, user.tenant, part.id)
            except OSError as error:  # they are removed when the part expires
                log.warning("staged file not removed", session=str(part.id), reason=str(error))

    async def _get(self, user: User, session_id: UUID) -> Session:
        async with self._tenants.acquire(user.tenant) as conn:
            return await get_session(conn, user.id, session_id)


class _PartLost(Exception):
    """The disk has not kept some bytes of a part."""

    def __init__(self, part_id: UUID, start: int, stop: int) -> None:
        super().__init__(str(part_id))
        self.part_id = part_id
        self.lost = (start, stop)


class _Reader:
    """Reads parts one after the other, from an offset in all of them on."""

    def __init__(self, staging: Staging, keys: StagingKeys, user: User, parts: Sequence[Session], start: int) -> None:
        self._staging = staging
        self._keys = keys
        self._user = user
        self._pending = list(parts)
        self._skip = start
        self._buffer = memoryview(bytearray(_PIECE))

    async def read_into(self, room: memoryview, took: Callable[[int], None]) -> bool:
        """As `Source` says, from the part that is next; raises _PartLost and as `StagingKeys.lend` does."""
        while self._pending and self._skip >= self._pending[0].size_bytes:
            self._skip -= self._pending.pop(0).size_bytes
        if not self._pending:
            return False
        part = self._pending[0]
        # Up to where a piece ends in the part: so every slot is opened once.
        most = min(len(room), _PIECE - self._skip % _PIECE, part.size_bytes - self._skip)
        async with self._keys.lend(self._user, part.id) as key:
            await run_in_thread(self._read_in_thread, part.id, key, most)
        self._skip += most
        room[:most] = self._buffer[:most]
        took(most)
        return True

    def _read_in_thread(self, part_id: UUID, key: bytes, most: int) -> None:
        file = self._open(part_id)
        try:
            SealedFile(file, key, part_id).read_into(self._buffer[:most], self._skip)
        except BytesLost as error:
            raise _PartLost(part_id, error.start, error.stop) from error
        finally:
            file.close()

    def _open(self, part_id: UUID) -> StagedFile:
        try:
            return self._staging.open_shared(self._user.tenant, part_id)
        except Busy as error:
            raise UploadLocked("Another request works on a part.", retry_after_s=1) from error


def _key(new: NewSession, parts: Sequence[Session]) -> str:
    """The idempotency key of this file of these parts."""
    said = "\n".join([*(str(part.id) for part in parts), new.tus_metadata or ""])
    return f"tus-final:{hashlib.sha256(said.encode()).hexdigest()}"
