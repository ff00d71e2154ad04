"""The keys of staged bytes: 32 random bytes for each session, made with its first byte, wrapped by the tenant's KEK.

Its wrapped form lies in the session's row until the upload is over. Unwrapped it is in memory only, while the
upload's lines are open and a little longer, so that the next chunk need not ask core-api.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from dms_ingest.revisions import WrappingOutdated
from dms_ingest.upload_sessions import UploadNotFound
from nexarch.auth import User
from nexarch.core_client import CoreClient, KeyRetired
from nexarch.crypto.envelope import new_dek, unwrap_staging_key, wrap_staging_key
from nexarch.db import Connection, fetch_optional
from nexarch.tenancy import TenantPools

_KEPT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """The key of a session's staged bytes, under the tenant's KEK of this version."""

    wrapped_key: bytes
    kek_version: int


async def claim_key(conn: Connection, session_id: UUID, new: WrappedKey) -> WrappedKey:
    """The key that the session has, else this new one, which it has from now on.

    Raises UploadNotFound if it is not open, and WrappingOutdated.
    """
    sql = """
        UPDATE upload_sessions
        SET wrapped_key = coalesce(wrapped_key, $2), kek_version = coalesce(kek_version, $3)
        WHERE id = $1 AND state = 'open'
        RETURNING wrapped_key, kek_version
    """
    try:
        claimed = await fetch_optional(conn, WrappedKey, sql, session_id, new.wrapped_key, new.kek_version)
    except asyncpg.ForeignKeyViolationError as error:
        if error.constraint_name != "upload_sessions_kek_version_fkey":
            raise
        raise WrappingOutdated from error
    if claimed is None:
        raise UploadNotFound("The upload was ended meanwhile.")
    return claimed


class _Held:
    """The key of one session, for as many as use it."""

    def __init__(self) -> None:
        self.users = 0
        self.asking = asyncio.Lock()
        self.key: bytes | None = None
        self.timer: asyncio.TimerHandle | None = None


class StagingKeys:
    """Lends the keys of open sessions; `kept_s` after the last user gave one back, it is forgotten."""

    def __init__(self, core: CoreClient, tenants: TenantPools, *, kept_s: float = _KEPT_S) -> None:
        self._core = core
        self._tenants = tenants
        self._kept_s = kept_s
        self._held: dict[UUID, _Held] = {}

    @asynccontextmanager
    async def lend(self, user: User, session_id: UUID) -> AsyncIterator[bytes]:
        """The key of an open session of this person's tenant.

        Raises UploadNotFound if it is not open, SealBroken, and what `CoreClient.kek` raises.
        """
        held = self._held.setdefault(session_id, _Held())
        held.users += 1
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        try:
            async with held.asking:
                if held.key is None:
                    held.key = await self._unwrapped(user, session_id)
            yield held.key
        finally:
            held.users -= 1
            if not held.users:
                held.timer = asyncio.get_running_loop().call_later(self._kept_s, self.forget, session_id)

    def forget(self, session_id: UUID) -> None:
        """Let go of a session's key: it is over, or nobody has used it for a while."""
        held = self._held.pop(session_id, None)
        if held is not None and held.timer is not None:
            held.timer.cancel()

    async def _unwrapped(self, user: User, session_id: UUID) -> bytes:
        """The key that the session has; if it has none, a new one, unless another process is first."""
        try:
            return await self._claim(user, session_id)
        except (WrappingOutdated, KeyRetired):
            # The tenant's key was rotated in between, so by now the row has a newer version, or can have it.
            return await self._claim(user, session_id)

    async def _claim(self, user: User, session_id: UUID) -> bytes:
        kek = await self._core.kek(user.tenant)
        wrapped = wrap_staging_key(
            kek.kek, new_dek(), tenant_id=user.tenant_id, session_id=session_id, kek_version=kek.kek_version
        )
        async with self._tenants.acquire(user.tenant) as conn:
            claimed = await claim_key(conn, session_id, WrappedKey(wrapped_key=wrapped, kek_version=kek.kek_version))
        if claimed.kek_version != kek.kek_version:
            kek = await self._core.kek(user.tenant, claimed.kek_version)
        return unwrap_staging_key(
            kek.kek,
            claimed.wrapped_key,
            tenant_id=user.tenant_id,
            session_id=session_id,
            kek_version=claimed.kek_version,
        )
