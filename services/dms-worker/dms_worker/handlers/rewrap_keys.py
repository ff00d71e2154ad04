"""`rewrap_keys`: wrap what older versions of the tenant's key hold under the newest, and have the older ones retired.

Only the wrapped keys in the rows change; no object is read or written, and each stays readable throughout. Every step
is a transaction of its own, so what is cut short goes on in the next attempt or period.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from dms_worker.job_types import JobContext, PermanentError, Snooze
from dms_worker.wrapped_keys import Rewrapped, WrappedKey, older_keys, replace_keys
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import SealBroken, unwrap_dek, wrap_dek
from nexarch.tenancy import TenantPools

_PAUSE_S = 0.02  # between two steps: what the queue is for goes first
_AGAIN_S = 15.0  # an upload that was about to be committed when we looked is by then

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyRewrapping:
    """The handler and what it works with. The keys are asked for at each step and kept nowhere."""

    core: CoreClient
    tenants: TenantPools
    rows_a_step: int = 200

    async def run(self, ctx: JobContext) -> None:
        """Done when no version is `retiring` any more; done twice, the second run finds nothing."""
        versions = await self.core.kek_versions(ctx.tenant)
        if not any(each.state == "retiring" for each in versions):
            return
        rewrapped, broken = await self._rewrap(ctx)
        versions = await self.core.retire_keks(ctx.tenant)
        in_use = [each.version for each in versions if each.state == "retiring"]
        log.info("keys wrapped anew", rows=rewrapped, broken=broken, versions_in_use=in_use)
        if broken:
            raise PermanentError(
                "keys-broken", f"The wrapped keys of {broken} revisions do not open; the log names them."
            )
        if in_use:
            raise Snooze(_AGAIN_S)

    async def _rewrap(self, ctx: JobContext) -> tuple[int, int]:
        """One pass over all rows; how many were wrapped anew, and how many do not open and stay as they are."""
        tenant_id = await self.tenants.tenant_id(ctx.tenant)
        rewrapped, broken, after = 0, 0, None
        while True:
            newest = await self.core.kek(ctx.tenant)
            async with ctx.pool.acquire() as conn:
                rows = await older_keys(conn, newest.kek_version, after=after, limit=self.rows_a_step)
            if not rows:
                return rewrapped, broken
            older = {
                version: (await self.core.kek(ctx.tenant, version)).kek for version in {row.kek_version for row in rows}
            }
            keys = _wrapped_anew(tenant_id, rows, older, newest.kek, newest.kek_version)
            async with ctx.pool.acquire() as conn:
                await replace_keys(conn, keys)
            rewrapped += len(keys)
            broken += len(rows) - len(keys)
            after = rows[-1].id
            await asyncio.sleep(_PAUSE_S)


def _wrapped_anew(
    tenant_id: UUID, rows: Sequence[WrappedKey], older: dict[int, bytes], kek: bytes, version: int
) -> list[Rewrapped]:
    """The keys that open, in the order of the rows; each of the others is logged."""
    keys = []
    for row in rows:
        try:
            dek = unwrap_dek(
                older[row.kek_version],
                row.wrapped,
                tenant_id=tenant_id,
                revision_id=row.id,
                kek_version=row.kek_version,
            )
        except SealBroken:
            log.error("a wrapped key does not open", revision_id=str(row.id), kek_version=row.kek_version)  # noqa: TRY400
            continue
        wrapped = wrap_dek(kek, dek, tenant_id=tenant_id, revision_id=row.id, kek_version=version)
        keys.append(Rewrapped(old=row, new=WrappedKey(id=row.id, wrapped=wrapped, kek_version=version)))
    return keys
