"""The jobs of the caller's own tenant."""

from datetime import datetime
from typing import Any
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, TypeAdapter

from nexarch import jobs
from nexarch.db import as_dict
from nexarch.jobs import Job, Status
from nexarch.pages import PageQuery, decode_id, encode_cursor
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import tenant_connection


class JobQuery(PageQuery):
    """Which jobs."""

    status: Status | None = None


class JobView(BaseModel):
    """A job as an administrator of its tenant sees it."""

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


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    items: list[JobView]
    next_cursor: str | None


async def list_jobs(request: web.Request, query: JobQuery) -> web.Response:
    """`GET /v1/jobs`: the tenant's jobs, newest first."""
    async with tenant_connection(request) as conn:
        rows = await jobs.list_jobs(conn, status=query.status, before=decode_id(query.cursor), limit=query.limit + 1)
    page = rows[: query.limit]
    cursor = encode_cursor(str(page[-1].id)) if len(rows) > query.limit else None
    return json_response(JobPage(items=[_view(job) for job in page], next_cursor=cursor))


async def show(request: web.Request) -> web.Response:
    """`GET /v1/jobs/{id}`: one job with its payload and its last error."""
    async with tenant_connection(request) as conn:
        return json_response(_view(await jobs.get_job(conn, id_in_path(request))))


_VIEW = TypeAdapter(JobView)


def _view(job: Job) -> JobView:
    return _VIEW.validate_python(as_dict(job))
