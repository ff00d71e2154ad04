"""`nexarch login` and `nexarch logout`."""

import asyncio
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from nexarch.cli.client import log_in, open_session, operator_api
from nexarch.cli.failures import Failure
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_json, show_line
from nexarch.cli.target import Target, profile_path, resolve_target, write_profile


@click.command()
@click.option("--core", help="URL of core-api, such as https://core.example.org.")
@click.option("--ingest", help="URL of dms-ingest.")
@click.option("--worker", help="URL of dms-worker, for `nexarch jobs`.")
@click.option("--tenant", help="Slug of the tenant.")
@click.option("--email", help="Address of the user.")
@click.option("--operator", is_flag=True, help="Store an operator's token instead; it is asked for.")
@click.option("--password-stdin", is_flag=True, help="Read the password (or the operator's token) from stdin.")
@shared_options
@pass_options
def login(
    options: Options,
    *,
    core: str | None,
    ingest: str | None,
    worker: str | None,
    tenant: str | None,
    email: str | None,
    operator: bool,
    password_stdin: bool,
) -> None:
    """Log in.

    Addresses and token are kept for the commands that follow; what is not given stays as it was. The password is
    asked for, or taken from NEXARCH_PASSWORD or stdin, and never stored. A token is valid for 15 minutes.
    """
    target = resolve_target(options.endpoints)
    given: dict[str, Any] = {
        "core_url": core,
        "ingest_url": ingest,
        "worker_url": worker,
        "tenant": tenant,
        "email": email,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    if "core_url" in changed and changed["core_url"] != target.core_url:
        # Another platform: nothing of the old one may reach it.
        target = Target(source=target.source, password=target.password)
    target = replace(target, **changed)
    target.url("core")
    target = _as_operator(target, password_stdin) if operator else _as_user(target, password_stdin)
    path = profile_path()
    write_profile(target, path)
    if options.json:
        show_json(_shown(target, operator, str(path)))
    elif operator:
        show_line(f"Logged in at {target.core_url} as an operator; kept in {path}.")
    else:
        until = datetime.fromtimestamp(target.expires_at or 0, UTC).astimezone()
        show_line(f"Logged in at {target.core_url} as {target.email} of {target.tenant} until {until:%H:%M:%S}.")


def _shown(target: Target, operator: bool, path: str) -> dict[str, Any]:
    shown = {"core_url": target.core_url, "profile": path}
    return (
        shown
        if operator
        else {**shown, "tenant": target.tenant, "email": target.email, "expires_at": target.expires_at}
    )


def _as_user(target: Target, from_stdin: bool) -> Target:
    tenant, email = target.tenant, target.email
    if tenant is None or email is None:
        raise click.UsageError("Give --tenant and --email.")
    password = read_secret("Password", from_stdin, known=target.password)

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            return await log_in(session, target.url("core"), tenant, email, password)

    answer = asyncio.run(ask())
    return replace(target, token=answer["access_token"], expires_at=time.time() + answer["expires_in"])


def _as_operator(target: Target, from_stdin: bool) -> Target:
    target = replace(target, operator_token=read_secret("Operator's token", from_stdin, known=None))

    async def check() -> None:
        async with open_session() as session:
            await operator_api(session, target).call("GET", "/v1/tenants", params={"limit": "1"})

    asyncio.run(check())
    return target


def read_secret(name: str, from_stdin: bool, *, known: str | None, confirm: bool = False) -> str:
    """A secret from stdin, as `known` or from a prompt; never from an argument, which `ps` shows."""
    if from_stdin:
        secret = sys.stdin.readline().rstrip("\r\n")
    elif known is not None:
        secret = known
    elif sys.stdin.isatty():
        secret = click.prompt(name, hide_input=True, confirmation_prompt=confirm, err=True)
    else:
        raise Failure(f"{name}: there is no terminal to ask on.", hint="Use --password-stdin or NEXARCH_PASSWORD.")
    if not secret:
        raise Failure(f"{name}: it is empty.")
    return secret


@click.command()
@shared_options
def logout() -> None:
    """Forget the login."""
    path = profile_path()
    path.unlink(missing_ok=True)
    note(f"Removed {path}.")
