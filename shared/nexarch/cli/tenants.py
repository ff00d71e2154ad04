"""`nexarch tenants`: create, list, show, suspend and resume, as an operator."""

import asyncio
from typing import Any

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.client import open_session, operator_api
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_line, show_table, state, when
from nexarch.cli.target import resolve_target


@click.group()
def tenants() -> None:
    """Tenants, for operators."""


@tenants.command("create")
@click.argument("slug", type=SLUG)
@click.option("--name", help="The tenant's full name; without it, the slug.")
@shared_options
@pass_options
def create(options: Options, slug: str, name: str | None) -> None:
    """Create a tenant with a database and a key of its own."""
    tenant = asyncio.run(_call(options, "POST", "/v1/tenants", {"slug": slug, "name": name or slug}))
    _show(options, tenant)


@tenants.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, limit: int, everything: bool, cursor: str | None) -> None:
    """List tenants."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = operator_api(session, resolve_target(options.endpoints))
            return await api.page("/v1/tenants", {}, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [(t["slug"], t.get("name"), state(t["status"]), when(t.get("created_at"))) for t in page["items"]]
    show_table(["slug", "name", "status", "created"], rows, nothing="There is no tenant yet.")
    if page["next_cursor"]:
        note("There are more: use --all.")


@tenants.command("show")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def show(options: Options, slug: str) -> None:
    """Show one tenant."""
    _show(options, asyncio.run(_call(options, "GET", f"/v1/tenants/{slug}")))


@tenants.command("suspend")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def suspend(options: Options, slug: str) -> None:
    """Refuse every call of a tenant until it is resumed; its data stays."""
    _show(options, asyncio.run(_call(options, "POST", f"/v1/tenants/{slug}/suspend")))


@tenants.command("resume")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def resume(options: Options, slug: str) -> None:
    """Let a suspended tenant work again."""
    _show(options, asyncio.run(_call(options, "POST", f"/v1/tenants/{slug}/resume")))


async def _call(options: Options, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    async with open_session() as session:
        return await operator_api(session, resolve_target(options.endpoints)).call(method, path, json=body)


def _show(options: Options, tenant: dict[str, Any] | None) -> None:
    if options.json:
        show_json(tenant)
    elif tenant is None:
        show_line("Done.")
    else:
        show_fields([(name, state(value) if name == "status" else value) for name, value in tenant.items()])
