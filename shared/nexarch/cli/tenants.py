"""`nexarch tenants`: create, list, show, suspend and resume, as an operator."""

from typing import Any

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.operating import list_for_operator, operator_call
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import show_fields, show_json, show_line, state, when


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
    tenant = operator_call(options, "POST", "/v1/tenants", {"slug": slug, "name": name or slug})
    _show(options, tenant)


@tenants.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, limit: int, everything: bool, cursor: str | None) -> None:
    """List tenants."""
    list_for_operator(
        options,
        "/v1/tenants",
        lambda tenant: (tenant["slug"], tenant.get("name"), state(tenant["status"]), when(tenant.get("created_at"))),
        columns=["slug", "name", "status", "created"],
        nothing="There is no tenant yet.",
        limit=None if everything else limit,
        cursor=cursor,
    )


@tenants.command("show")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def show(options: Options, slug: str) -> None:
    """Show one tenant."""
    _show(options, operator_call(options, "GET", f"/v1/tenants/{slug}"))


@tenants.command("suspend")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def suspend(options: Options, slug: str) -> None:
    """Refuse every call of a tenant until it is resumed; its data stays."""
    _show(options, operator_call(options, "POST", f"/v1/tenants/{slug}/suspend"))


@tenants.command("resume")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def resume(options: Options, slug: str) -> None:
    """Let a suspended tenant work again."""
    _show(options, operator_call(options, "POST", f"/v1/tenants/{slug}/resume"))


def _show(options: Options, tenant: dict[str, Any] | None) -> None:
    if options.json:
        show_json(tenant)
    elif tenant is None:
        show_line("Done.")
    else:
        show_fields([(name, state(value) if name == "status" else value) for name, value in tenant.items()])
