"""The jobs of a tenant, for its admins and for operators."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from dms_worker import cancelling
from dms_worker.keys import JOB_TYPES
from nexarch import channels, jobs
from nexarch.db import Connection
from nexarch.jobs import Job, Status
from nexarch.operators import TenantQuery, tenant_of
from nexarch.pages import PageQuery, decode_id, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import DOORBELL, TENANTS

JobTypeName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,62}$", examples=["extract_text"])]

log = structlog.get_logger(__name__)


class JobQuery(PageQuery, TenantQuery):
    """Which jobs."""

    status: Status | None = None
    job_type: JobTypeName | None = None


class JobView(BaseModel):
    """A job as an administrator of its tenant or an operator sees it."""

    id: UUID
    job_type: str
    status: Status
    payload: dict[str, Any]
    priority: int
    attempts: int
    max_attempts: int
    progress: int
    available_at: datetime
    locked_by: str | None
    last_error: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    cancel_requested_at: datetime | None


class AttemptView(BaseModel):
    """An attempt that failed, or whose worker was lost."""

    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime
    error: dict[str, Any]


class JobDetails(JobView):
    """A job with the attempts that failed, oldest first."""

    failed_attempts: list[AttemptView]


class WhichJobs(BaseModel):
    """All dead letters of this type."""

    model_config = ConfigDict(extra="forbid")

    job_type: JobTypeName


class Requeued(BaseModel):
    """How many jobs were queued again."""

    requeued: int


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    items: list[JobView]
    next_cursor: str | None


async def list_jobs(request: web.Request, query: JobQuery) -> web.Response:
    """`GET /v1/jobs`: the tenant's jobs, newest first."""
    async with request.app[TENANTS].acquire(tenant_of(request, query)) as conn:
        rows = await jobs.list_jobs(
            conn,
            status=query.status,
            job_type=query.job_type,
            before=decode_id(query.cursor),
            limit=query.limit + 1,
        )
    page, cursor = page_of(rows, query.limit, lambda job: (str(job.id),))
    return json_response(JobPage(items=[_view(job) for job in page], next_cursor=cursor))


async def show(request: web.Request, query: TenantQuery) -> web.Response:
    """`GET /v1/jobs/{id}`: one job with its payload, its last error and the attempts that failed."""
    async with request.app[TENANTS].acquire(tenant_of(request, query)) as conn:
        return json_response(await _details(conn, id_in_path(request)))


async def requeue(request: web.Request, query: TenantQuery) -> web.Response:
    """`POST /v1/jobs/{id}/requeue`: let a dead letter run again, with all its attempts; 409 for any other job."""
    tenant, job_id = tenant_of(request, query), id_in_path(request)
    await request.app[DOORBELL].arm(tenant)
    async with request.app[TENANTS].acquire(tenant) as conn:
        await jobs.requeue(conn, job_id)
        details = await _details(conn, job_id)
    request.app[DOORBELL].ring(tenant)
    log.info("job requeued", tenant=tenant, job_id=str(job_id))
    return json_response(details)


async def requeue_all(request: web.Request, query: TenantQuery, body: WhichJobs) -> web.Response:
    """`POST /v1/jobs/requeue`: let all dead letters of a type run again."""
    tenant = tenant_of(request, query)
    await request.app[DOORBELL].arm(tenant)
    async with request.app[TENANTS].acquire(tenant) as conn:
        requeued = await jobs.requeue_all(conn, body.job_type)
    request.app[DOORBELL].ring(tenant)
    log.info("jobs requeued", tenant=tenant, job_type=body.job_type, jobs=requeued)
    return json_response(Requeued(requeued=requeued))


async def discard(request: web.Request, query: TenantQuery) -> web.Response:
    """`POST /v1/jobs/{id}/discard`: give a dead letter up; it is `failed`, and pruned in its time."""
    tenant, job_id = tenant_of(request, query), id_in_path(request)
    async with request.app[TENANTS].acquire(tenant) as conn:
        await jobs.discard(conn, job_id)
        details = await _details(conn, job_id)
    log.info("job discarded", tenant=tenant, job_id=str(job_id))
    return json_response(details)


async def cancel(request: web.Request, query: TenantQuery) -> web.Response:
    """`POST /v1/jobs/{id}/cancel`: give a job up: at once if it waits; if it runs, its worker is told."""
    tenant, job_id = tenant_of(request, query), id_in_path(request)
    async with request.app[TENANTS].acquire(tenant) as conn:
        await cancelling.cancel(conn, tenant, job_id, request.app[JOB_TYPES])
        details = await _details(conn, job_id)
    if details.status == Status.PROCESSING:
        await request.app[DOORBELL].tell(channels.JOB_CANCELS, tenant)
    log.info("job cancelled", tenant=tenant, job_id=str(job_id), job_status=details.status)
    return json_response(details)


def _view(job: Job) -> JobView:
    return JobView.model_validate(job, from_attributes=True)


async def _details(conn: Connection, job_id: UUID) -> JobDetails:
    job = await jobs.get_job(conn, job_id)
    attempts = await jobs.list_attempts(conn, job_id)
    failed = [AttemptView.model_validate(attempt, from_attributes=True) for attempt in attempts]
    return JobDetails(**_view(job).model_dump(), failed_attempts=failed)
