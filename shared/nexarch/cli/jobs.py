"""`nexarch jobs`: what the workers have done, do and will do for a tenant."""

import asyncio
from typing import Any
from uuid import UUID

import click

from nexarch.cli.client import jobs_api, open_session
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, state, when
from nexarch.cli.target import resolve_target

_STATES = ["pending", "processing", "succeeded", "failed", "dead_letter"]


@click.group()
def jobs() -> None:
    """Jobs of a tenant, for its admins."""


@jobs.command("show")
@click.argument("job_id", metavar="JOB", type=click.UUID)
@shared_options
@pass_options
def show(options: Options, *, job_id: UUID) -> None:
    """Show one job with its payload and its last error."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            job: dict[str, Any] = await jobs_api(session, resolve_target(options.endpoints)).call(
                "GET", f"/v1/jobs/{job_id}"
            )
            return job

    job = asyncio.run(ask())
    if options.json:
        show_json(job)
    else:
        show_fields([(name, state(value) if name == "status" else value) for name, value in job.items()])


@jobs.command("list")
@click.option("--status", type=click.Choice(_STATES), help="Only those in this state.")
@page_options
@shared_options
@pass_options
def list_(options: Options, *, status: str | None, limit: int, everything: bool, cursor: str | None) -> None:
    """List jobs, newest first."""
    query = {} if status is None else {"status": status}

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = jobs_api(session, resolve_target(options.endpoints))
            return await api.page("/v1/jobs", query, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [
        (
            job["id"],
            job["job_type"],
            state(job["status"]),
            f"{job['attempts']}/{job['max_attempts']}",
            when(job.get("available_at")),
            when(job.get("finished_at")),
            (job.get("last_error") or {}).get("detail"),
        )
        for job in page["items"]
    ]
    show_table(["job", "type", "status", "attempts", "due", "finished", "last error"], rows, nothing="There is no job.")
    if page["next_cursor"]:
        note("There are more: use --all.")
