"""`check_store`: whether the object store holds what the rows say, all of it and nothing else.

A check has two parts: the store's listing beside the rows, then the bytes of objects. After each step it is written
down where it goes on, so a successor repeats one step at most. It works for some seconds at a time and then lets other
jobs go first.

Only what is certainly the fault of an object marks it as damaged. Where the store or core-api is away the job fails,
and is tried again.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from dms_worker.check_metrics import CheckMetrics
from dms_worker.check_steps import Step, record_step
from dms_worker.job_types import JobContext, Snooze
from dms_worker.store_contents import ObjectReader
from dms_worker.store_listing import Stretch, stretches
from dms_worker.stored_objects import (
    SealedObject,
    count_objects,
    doom_orphans,
    mark_damaged,
    mark_unread,
    mark_well,
    next_to_read,
)
from nexarch.core_client import CoreClient, KeyRetired
from nexarch.db import Connection
from nexarch.job_types import CheckStore
from nexarch.purge import delete_objects, forget_doomed
from nexarch.storage import BucketNotFound, Storage
from nexarch.store_checks import Finding, Scope, StoreCheck, get_check, open_check
from nexarch.tenancy import TenantPools

_PAUSE_S = 0.02  # between two steps: what the queue is for goes first
_AGAIN_S = 1.0  # between two turns
_TAKEN_OVER_S = 30.0  # when another worker goes on with the check: until it is done, or lost

log = structlog.get_logger(__name__)


class _TakenOver(Exception):
    """Another worker goes on with the check; what this one wrote is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLimits:
    """How much is looked at, and how long."""

    sample_objects: int
    sample_bytes: int  # of plaintext; the object that goes beyond it is the last one
    orphans_kept_s: float
    leftovers_kept_s: float = 86400.0  # of a put that has not ended: longer than any takes
    turn_s: float = 10.0  # of work, until other jobs go first


@dataclass(frozen=True, slots=True)
class StoreChecking:
    """The handler and what it works with."""

    core: CoreClient
    storage: Storage
    tenants: TenantPools
    metrics: CheckMetrics
    limits: CheckLimits

    async def run(self, ctx: JobContext) -> None:
        """Go on with the check that the job is for, or with the sample that is due."""
        payload = CheckStore.model_validate(ctx.job.payload)
        async with ctx.pool.acquire() as conn:
            if payload.check_id is None:
                check = await open_check(conn, Scope.SAMPLE)
            else:
                check = await get_check(conn, payload.check_id)
        turn = _Turn(self, ctx, check, time.monotonic() + self.limits.turn_s)
        try:
            await turn.work()
        except _TakenOver:
            log.info("another worker goes on with the check of the store", check=str(check.id))
            raise Snooze(_TAKEN_OVER_S) from None


class _Turn:
    """One turn of one check; `check` is where it is."""

    def __init__(self, work: StoreChecking, ctx: JobContext, check: StoreCheck, ends_at: float) -> None:
        self._work = work
        self._ctx = ctx
        self._ends_at = ends_at
        self.check = check

    async def work(self) -> None:
        """Work until the check is finished; Snooze when the turn is over before."""
        if self.check.phase == "objects":
            await self._compare_listing()
        if self.check.phase == "contents":
            await self._read_contents()

    async def _compare_listing(self) -> None:
        older_than = datetime.now(UTC) - timedelta(seconds=self._work.limits.orphans_kept_s)
        leftovers = 0 if self.check.position else await self._sweep()
        found = stretches(
            self._work.storage,
            self._ctx.pool,
            self._ctx.tenant,
            after=self.check.position,
            older_than=older_than,
        )
        async with aclosing(found):
            async for stretch in found:
                await self._record_stretch(stretch, leftovers)
                leftovers = 0
                if stretch.last is not None:
                    await self._pause()

    async def _sweep(self) -> int:
        """Remove what puts have left that never ended."""
        before = datetime.now(UTC) - timedelta(seconds=self._work.limits.leftovers_kept_s)
        try:
            return await self._work.storage.sweep_incomplete(self._ctx.tenant, before)
        except BucketNotFound:
            return 0  # nothing was ever put

    async def _record_stretch(self, stretch: Stretch, leftovers: int) -> None:
        async with self._ctx.pool.acquire() as conn, conn.transaction():
            orphans = await doom_orphans(conn, list(stretch.orphans), list(stretch.orphans.values()))
            missing = await mark_damaged(conn, stretch.missing, Finding.MISSING)
            wrong_size = await mark_damaged(conn, stretch.wrong_size, Finding.SIZE)
            step = Step(
                phase="contents" if stretch.last is None else "objects",
                position=stretch.last or "",
                objects=stretch.objects,
                orphans_young=stretch.young + len(stretch.orphans) - len(orphans),
                leftovers=leftovers,
                findings=[
                    *((key, Finding.ORPHAN) for key in orphans),
                    *((key, Finding.MISSING) for key in missing),
                    *((key, Finding.SIZE) for key in wrong_size),
                ],
            )
            await self._record(conn, step)
        self._tell(step)
        if orphans:
            await self._delete(orphans)

    async def _delete(self, orphans: Sequence[str]) -> None:
        """Those that the store does not give up now stay doomed, and the next purge tries again."""
        gone = await delete_objects(self._work.storage, self._ctx.tenant, orphans)
        async with self._ctx.pool.acquire() as conn:
            await forget_doomed(conn, gone)

    async def _read_contents(self) -> None:
        tenant = self._ctx.tenant
        tenant_id = await self._work.tenants.tenant_id(tenant)
        reader = ObjectReader(self._work.core, self._work.storage, tenant, tenant_id)
        async with self._ctx.pool.acquire() as conn:
            planned = await count_objects(conn)
        if self.check.scope == Scope.SAMPLE:
            planned = min(planned, self._work.limits.sample_objects)
        while sealed := await self._next():
            try:
                fault = await reader.fault(sealed)
            except KeyRetired:
                await self._require_rewrapped(sealed)
                continue
            await self._record_content(sealed, fault)
            self._ctx.progress(100 * self.check.contents // max(1, planned))
            await self._pause()
        async with self._ctx.pool.acquire() as conn, conn.transaction():
            await self._record(conn, Step(phase="finished", position=""))
        self._finished()

    async def _next(self) -> SealedObject | None:
        limits, check = self._work.limits, self.check
        if check.scope == Scope.SAMPLE and (
            check.contents >= limits.sample_objects or check.bytes >= limits.sample_bytes
        ):
            return None
        async with self._ctx.pool.acquire() as conn:
            return await next_to_read(conn, check.created_at)

    async def _require_rewrapped(self, sealed: SealedObject) -> None:
        """Return if the row has another key by now; else a retired key is in use, and KeyRetired stands."""
        now = await self._next()
        if now is not None and now.revision_id == sealed.revision_id and now.kek_version == sealed.kek_version:
            raise KeyRetired

    async def _record_content(self, sealed: SealedObject, fault: Finding | None) -> None:
        key = sealed.storage_key
        async with self._ctx.pool.acquire() as conn, conn.transaction():
            if fault is None:
                recovered, found = await mark_well(conn, key), False
            elif fault == Finding.KEY:
                recovered, found = False, await mark_unread(conn, key)
            else:
                recovered, found = False, bool(await mark_damaged(conn, [key], fault))
            step = Step(
                phase="contents",
                position=key,
                contents=1,
                bytes=0 if fault in {Finding.KEY, Finding.MISSING} else sealed.size_bytes,
                findings=[(key, fault)] if found and fault is not None else [],
            )
            await self._record(conn, step)
        self._tell(step)
        if recovered:
            log.info("a damaged object is well again", tenant=self._ctx.tenant, object=key)

    async def _record(self, conn: Connection, step: Step) -> None:
        after = await record_step(conn, self.check, step)
        if after is None:
            raise _TakenOver
        self.check = after

    def _tell(self, step: Step) -> None:
        """Once it is committed: a line for each finding, and the metric."""
        for key, kind in step.findings:
            log.warning("the object store is not as it should be", tenant=self._ctx.tenant, object=key, finding=kind)
            self._work.metrics.found(kind)
        if step.leftovers:
            log.info("leftovers of puts removed", tenant=self._ctx.tenant, count=step.leftovers)

    def _finished(self) -> None:
        self._work.metrics.finished()
        log.info(
            "the object store was checked",
            tenant=self._ctx.tenant,
            scope=self.check.scope,
            objects=self.check.objects,
            contents=self.check.contents,
            missing=self.check.missing,
            damaged=self.check.damaged,
            orphans_removed=self.check.orphans_removed,
        )

    async def _pause(self) -> None:
        if time.monotonic() > self._ends_at:
            raise Snooze(_AGAIN_S)
        await asyncio.sleep(_PAUSE_S)
