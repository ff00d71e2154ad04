"""`rewrap_keys`: wrap what older versions of the tenant's key hold under the newest, and have the older ones retired.

Only the wrapped keys in the rows change; no object is read or written, and each stays readable throughout. Every step
is a transaction of its own, so what is cut short goes on in the next attempt or period.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import structlog

from dms_worker.job_types import JobContext, PermanentError, Snooze
from dms_worker.wrapped_keys import (
    Rewrapped,
    WrappedKey,
    older_object_keys,
    older_staging_keys,
    replace_object_keys,
    replace_staging_keys,
)
from nexarch.core_client import CoreClient, TenantKey
from nexarch.crypto.envelope import SealBroken, unwrap_dek, unwrap_staging_key, wrap_dek, wrap_staging_key
from nexarch.db import Connection
from nexarch.tenancy import TenantPools

_PAUSE_S = 0.02  # between two steps: what the queue is for goes first
_AGAIN_S = 15.0  # an upload that was about to be committed when we looked is by then

log = structlog.get_logger(__name__)


class _Read(Protocol):
    def __call__(self, conn: Connection, below: int, *, after: UUID, limit: int) -> Awaitable[list[WrappedKey]]: ...


@dataclass(frozen=True, slots=True)
class _Place:
    """A table that holds wrapped keys, and how they are wrapped."""

    read: _Read
    replace: Callable[[Connection, Sequence[Rewrapped]], Awaitable[None]]
    rewrap: Callable[[UUID, WrappedKey, bytes, TenantKey], bytes]


def _object_key(tenant_id: UUID, row: WrappedKey, kek: bytes, newest: TenantKey) -> bytes:
    dek = unwrap_dek(kek, row.wrapped, tenant_id=tenant_id, revision_id=row.id, kek_version=row.kek_version)
    return wrap_dek(newest.kek, dek, tenant_id=tenant_id, revision_id=row.id, kek_version=newest.kek_version)


def _staging_key(tenant_id: UUID, row: WrappedKey, kek: bytes, newest: TenantKey) -> bytes:
    key = unwrap_staging_key(kek, row.wrapped, tenant_id=tenant_id, session_id=row.id, kek_version=row.kek_version)
    return wrap_staging_key(newest.kek, key, tenant_id=tenant_id, session_id=row.id, kek_version=newest.kek_version)


_PLACES = (
    _Place(older_staging_keys, replace_staging_keys, _staging_key),
    _Place(older_object_keys, replace_object_keys, _object_key),
)


@dataclass(frozen=True, slots=True)
class KeyRewrapping:
    """The handler and what it works with. The tenant's keys are asked for at each step and kept nowhere."""

    core: CoreClient
    tenants: TenantPools
    rows_a_step: int = 200

    async def run(self, ctx: JobContext) -> None:
        """Done when no version is `retiring` any more; done twice, the second run finds nothing."""
        versions = await self.core.kek_versions(ctx.tenant)
        if not any(each.state == "retiring" for each in versions):
            return
        broken = sum([await self._rewrap(ctx, place) for place in _PLACES])
        versions = await self.core.retire_keks(ctx.tenant)
        in_use = [each.version for each in versions if each.state == "retiring"]
        if broken:
            raise PermanentError("keys-broken", f"{broken} wrapped keys do not open; the log names their rows.")
        if in_use:
            log.info("key versions are still in use", versions=in_use)
            raise Snooze(_AGAIN_S)

    async def _rewrap(self, ctx: JobContext, place: _Place) -> int:
        """One pass over all rows of a table; returns how many keys do not open and stay as they are."""
        tenant_id = await self.tenants.tenant_id(ctx.tenant)
        rewrapped, broken, after = 0, 0, UUID(int=0)
        while True:
            newest = await self.core.kek(ctx.tenant)
            async with ctx.pool.acquire() as conn:
                rows = await place.read(conn, newest.kek_version, after=after, limit=self.rows_a_step)
            if not rows:
                break
            versions = {row.kek_version for row in rows}
            older = {version: (await self.core.kek(ctx.tenant, version)).kek for version in versions}
            keys = _wrapped_anew(place, tenant_id, rows, older, newest)
            async with ctx.pool.acquire() as conn:
                await place.replace(conn, keys)
            rewrapped += len(keys)
            broken += len(rows) - len(keys)
            after = rows[-1].id
            await asyncio.sleep(_PAUSE_S)
        if rewrapped or broken:
            log.info("keys wrapped anew", rows=rewrapped, broken=broken, version=newest.kek_version)
        return broken


def _wrapped_anew(
    place: _Place, tenant_id: UUID, rows: Sequence[WrappedKey], older: Mapping[int, bytes], newest: TenantKey
) -> list[Rewrapped]:
    """The keys that open, in the order of the rows; each of the others is logged."""
    keys = []
    for row in rows:
        try:
            wrapped = place.rewrap(tenant_id, row, older[row.kek_version], newest)
        except SealBroken:
            log.error("a wrapped key does not open", row=str(row.id), kek_version=row.kek_version)  # noqa: TRY400
            continue
        keys.append(Rewrapped(old=row, new=WrappedKey(id=row.id, wrapped=wrapped, kek_version=newest.kek_version)))
    return keys
