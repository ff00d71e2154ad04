"""`nexarch jobs`: what the workers have done, do and will do for a tenant."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import click

from nexarch.cli.client import jobs_api, open_session
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, state, when
from nexarch.cli.target import resolve_target

F = TypeVar("F", bound=Callable[..., Any])

_STATES = ["pending", "processing", "succeeded", "failed", "dead_letter"]


@click.group()
def jobs() -> None:
    """Jobs of a tenant, for its admins; with --tenant for operators."""


def _tenant_option(command: F) -> F:
    return click.option("--tenant", metavar="SLUG", help="Whose jobs, as an operator; else those of your own tenant.")(
        command
    )


@jobs.command("show")
@click.argument("job_id", metavar="JOB", type=click.UUID)
@_tenant_option
@shared_options
@pass_options
def show(options: Options, *, job_id: UUID, tenant: str | None) -> None:
    """Show one job with its payload, its last error and the attempts that failed."""
    _show(options, _call(options, tenant, "GET", f"/v1/jobs/{job_id}"))


@jobs.command("requeue")
@click.argument("job_id", metavar="JOB", type=click.UUID, required=False)
@click.option("--all-of", "job_type", metavar="TYPE", help="All dead letters of this type.")
@_tenant_option
@shared_options
@pass_options
def requeue(options: Options, *, job_id: UUID | None, job_type: str | None, tenant: str | None) -> None:
    """Let a dead letter run again, or all of a type."""
    if (job_id is None) == (job_type is None):
        raise click.UsageError("Give a job or --all-of TYPE.")
    if job_id is not None:
        _show(options, _call(options, tenant, "POST", f"/v1/jobs/{job_id}/requeue"))
        return
    answer = _call(options, tenant, "POST", "/v1/jobs/requeue", {"job_type": job_type})
    if options.json:
        show_json(answer)
    else:
        note(f"Queued again: {answer['requeued']}.")


@jobs.command("discard")
@click.argument("job_id", metavar="JOB", type=click.UUID)
@_tenant_option
@shared_options
@pass_options
def discard(options: Options, *, job_id: UUID, tenant: str | None) -> None:
    """Give a dead letter up."""
    _show(options, _call(options, tenant, "POST", f"/v1/jobs/{job_id}/discard"))


@jobs.command("cancel")
@click.argument("job_id", metavar="JOB", type=click.UUID)
@_tenant_option
@shared_options
@pass_options
def cancel(options: Options, *, job_id: UUID, tenant: str | None) -> None:
    """Give up a job that waits, or that runs: its worker is told and ends it."""
    _show(options, _call(options, tenant, "POST", f"/v1/jobs/{job_id}/cancel"))


@jobs.command("list")
@click.option("--status", type=click.Choice(_STATES), help="Only those in this state.")
@click.option("--type", "job_type", metavar="TYPE", help="Only those of this type.")
@_tenant_option
@page_options
@shared_options
@pass_options
def list_(
    options: Options,
    *,
    status: str | None,
    job_type: str | None,
    tenant: str | None,
    limit: int,
    everything: bool,
    cursor: str | None,
) -> None:
    """List jobs, newest first."""
    wanted = {"status": status, "job_type": job_type, "tenant": tenant}
    query = {name: value for name, value in wanted.items() if value is not None}

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = jobs_api(session, resolve_target(options.endpoints), as_operator=tenant is not None)
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


def _call(options: Options, tenant: str | None, method: str, path: str, body: object = None) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = jobs_api(session, resolve_target(options.endpoints), as_operator=tenant is not None)
            answer: dict[str, Any] = await api.call(
                method, path, json=body, params={} if tenant is None else {"tenant": tenant}
            )
            return answer

    return asyncio.run(ask())


def _show(options: Options, job: dict[str, Any]) -> None:
    if options.json:
        show_json(job)
        return
    attempts = job.pop("failed_attempts")
    show_fields([(name, state(value) if name == "status" else value) for name, value in job.items()])
    if attempts:
        rows = [
            (each["attempt"], each["worker"], when(each["started_at"]), when(each["ended_at"]), each["error"]["detail"])
            for each in attempts
        ]
        show_table(["attempt", "worker", "started", "ended", "error"], rows)
