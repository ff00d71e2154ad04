"""Uploads that do not become documents: ended by their owner, or expired, and what they left in the staging folder."""

import asyncio
from uuid import UUID

import asyncpg
import structlog

from dms_ingest.completing import Completer
from dms_ingest.receiving import Receiver, UploadCompleting
from dms_ingest.staging import Staging
from dms_ingest.upload_sessions import (
    UploadClosed,
    UploadNotFound,
    abort_expired,
    abort_session,
    get_session,
    open_sessions,
)
from nexarch.auth import User
from nexarch.core_client import CoreClient
from nexarch.db import AWAY
from nexarch.errors import NexarchError
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

log = structlog.get_logger(__name__)

# What may be wrong with one tenant or its database, and is no reason to stop.
_TROUBLE: tuple[type[Exception], ...] = (NexarchError, OSError, asyncpg.PostgresError, *AWAY)


async def end_upload(
    tenants: TenantPools, staging: Staging, receiver: Receiver, completer: Completer, user: User, session_id: UUID
) -> None:
    """End an open upload for good and remove its bytes. Raises UploadNotFound, UploadClosed, UploadCompleting."""
    async with tenants.acquire(user.tenant) as conn:
        session = await get_session(conn, user.id, session_id)
        if session.state == "complete":
            raise UploadClosed("The upload is complete; delete its document instead.")
        if completer.is_completing(session_id):
            raise UploadCompleting("The upload is being completed.")
        # A pass in another process finds the session closed when it wants to commit.
        if not await abort_session(conn, session_id):
            raise UploadNotFound("The upload was completed or ended meanwhile.")
    receiver.cut(session_id)
    receiver.forget(session_id)
    await run_in_thread(staging.remove, user.tenant, session_id)


class Sweep:
    """Ends expired sessions of all tenants and removes staged files without an open session; `run` is the loop."""

    def __init__(self, core: CoreClient, tenants: TenantPools, staging: Staging, *, every_s: float = 600.0) -> None:
        self._core = core
        self._tenants = tenants
        self._staging = staging
        self._every_s = every_s

    async def run(self) -> None:
        """Sweep until cancelled, first at the start."""
        while True:
            try:
                async for tenant in self._core.tenants():
                    if tenant.status == "active":
                        await self._sweep_logged(tenant.slug)
            except NexarchError as error:
                log.warning("uploads not swept", reason=error.detail)
            await asyncio.sleep(self._every_s)

    async def sweep(self, tenant: str) -> None:
        """End the tenant's expired sessions and remove the files of those that are not open."""
        # Listed before the question which are open: a session has its row before its file.
        staged = await run_in_thread(self._staging.staged, tenant)
        async with self._tenants.acquire(tenant) as conn:
            expired = await abort_expired(conn)
            alive = await open_sessions(conn, staged)
        for session_id in set(staged) - alive:
            await run_in_thread(self._staging.remove, tenant, session_id)
        if expired:
            log.info("uploads expired", tenant=tenant, count=expired)

    async def _sweep_logged(self, tenant: str) -> None:
        """One tenant's trouble holds up nobody else's."""
        try:
            await self.sweep(tenant)
        except _TROUBLE as error:
            log.warning("uploads of a tenant not swept", tenant=tenant, reason=f"{type(error).__name__}: {error}")
