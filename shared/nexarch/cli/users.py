"""`nexarch users`: create, list and disable a tenant's users, as an operator."""

import secrets
from uuid import UUID

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.login import read_secret
from nexarch.cli.operating import list_for_operator, operator_call
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import show_fields, show_json, when


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
    user = operator_call(options, "POST", f"/v1/tenants/{tenant}/users", body)
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
    list_for_operator(
        options,
        f"/v1/tenants/{tenant}/users",
        lambda user: (
            user["id"],
            user["email"],
            user["role"],
            when(user.get("disabled_at")),
            when(user.get("created_at")),
        ),
        columns=["id", "email", "role", "disabled", "created"],
        nothing="This tenant has no user yet.",
        limit=None if everything else limit,
        cursor=cursor,
    )


@users.command("disable")
@click.argument("tenant", type=SLUG)
@click.argument("user_id", metavar="USER", type=click.UUID)
@shared_options
@pass_options
def disable(options: Options, *, tenant: str, user_id: UUID) -> None:
    """Refuse a user's logins from now on; a token that is out ends within 15 minutes."""
    user = operator_call(options, "POST", f"/v1/tenants/{tenant}/users/{user_id}/disable")
    if options.json:
        show_json(user)
    elif user:
        show_fields(list(user.items()))
