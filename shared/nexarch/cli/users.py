"""`nexarch users`: create, list and disable a tenant's users, as an operator."""

import asyncio
import secrets
from typing import Any
from uuid import UUID

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.client import open_session, operator_api
from nexarch.cli.login import read_secret
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, when
from nexarch.cli.target import resolve_target


@click.group()
def users() -> None:
    """Users of a tenant, for operators."""


@users.command("create")
@click.argument("tenant", type=SLUG)
@click.argument("email")
@click.option("--role", type=click.Choice(["viewer", "editor", "admin"]), default="editor", show_default=True)
@click.option("--name", help="Their name; without it, the address.")
@click.option("--generate-password", is_flag=True, help="Make a password and show it once.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin.")
@shared_options
@pass_options
def create(
    options: Options,
    *,
    tenant: str,
    email: str,
    role: str,
    name: str | None,
    generate_password: bool,
    password_stdin: bool,
) -> None:
    """Create a user. The password is asked for, read from stdin, or made and shown once."""
    if generate_password and password_stdin:
        raise click.UsageError("--generate-password and --password-stdin exclude each other.")
    if generate_password:
        password = secrets.token_urlsafe(18)
    else:
        password = read_secret("Password of the new user", password_stdin, known=None, confirm=True)
    body = {"email": email, "password": password, "role": role} | ({} if name is None else {"display_name": name})
    user = asyncio.run(_call(options, "POST", f"/v1/tenants/{tenant}/users", body))
    if generate_password:
        user = {**user, "password": password}
    if options.json:
        show_json(user)
    else:
        show_fields(list(user.items()))


@users.command("list")
@click.argument("tenant", type=SLUG)
@page_options
@shared_options
@pass_options
def list_(options: Options, *, tenant: str, limit: int, everything: bool, cursor: str | None) -> None:
    """List a tenant's users."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = operator_api(session, resolve_target(options.endpoints))
            return await api.page(f"/v1/tenants/{tenant}/users", {}, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [
        (u["id"], u["email"], u["role"], when(u.get("disabled_at")), when(u.get("created_at"))) for u in page["items"]
    ]
    show_table(["id", "email", "role", "disabled", "created"], rows, nothing="This tenant has no user yet.")
    if page["next_cursor"]:
        note("There are more: use --all.")


@users.command("disable")
@click.argument("tenant", type=SLUG)
@click.argument("user_id", metavar="USER", type=click.UUID)
@shared_options
@pass_options
def disable(options: Options, *, tenant: str, user_id: UUID) -> None:
    """Refuse a user's logins from now on; a token that is out ends within 15 minutes."""
    user = asyncio.run(_call(options, "POST", f"/v1/tenants/{tenant}/users/{user_id}/disable"))
    if options.json:
        show_json(user)
    elif user:
        show_fields(list(user.items()))


async def _call(options: Options, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    async with open_session() as session:
        return await operator_api(session, resolve_target(options.endpoints)).call(method, path, json=body)
