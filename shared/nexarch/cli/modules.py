"""`nexarch modules`: the services that core-api knows, and their credentials, as an operator."""

import asyncio
from typing import Any
from uuid import UUID

import click

from nexarch.cli.arguments import KEY
from nexarch.cli.client import open_session, operator_api
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, when
from nexarch.cli.target import resolve_target


@click.group()
def modules() -> None:
    """Modules and their credentials, for operators."""


@modules.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, *, limit: int, everything: bool, cursor: str | None) -> None:
    """List modules."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = operator_api(session, resolve_target(options.endpoints))
            return await api.page("/v1/modules", {}, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [
        (m["id"], m.get("version"), m.get("base_url"), ", ".join(m.get("required_flags") or [])) for m in page["items"]
    ]
    show_table(["id", "version", "address", "required flags"], rows, nothing="There is no module yet.")
    if page["next_cursor"]:
        note("There are more: use --all.")


@modules.command("show")
@click.argument("module_id", metavar="MODULE", type=KEY)
@shared_options
@pass_options
def show(options: Options, *, module_id: str) -> None:
    """Show one module."""
    _show(options, asyncio.run(_call(options, "GET", f"/v1/modules/{module_id}")))


@modules.command("credentials")
@click.argument("module_id", metavar="MODULE", type=KEY)
@shared_options
@pass_options
def credentials(options: Options, *, module_id: str) -> None:
    """List a module's credentials, without their secrets."""
    answer = asyncio.run(_call(options, "GET", f"/v1/modules/{module_id}/credentials"))
    if options.json:
        show_json(answer)
        return
    rows = [
        (c["id"], c["client_id"], when(c["created_at"]), when(c.get("not_after")), when(c.get("revoked_at")))
        for c in answer["items"]
    ]
    show_table(["id", "client id", "created", "ends", "revoked"], rows, nothing="It has no credential.")


@modules.command("provision")
@click.argument("module_id", metavar="MODULE", type=KEY)
@click.option("--overlap", type=click.IntRange(0), help="Seconds that the other credential lives on.")
@shared_options
@pass_options
def provision(options: Options, *, module_id: str, overlap: int | None) -> None:
    """Make a credential; its secret is shown this once. Two may live at once, so that one can be replaced."""
    body = {} if overlap is None else {"overlap_s": overlap}
    _show(options, asyncio.run(_call(options, "POST", f"/v1/modules/{module_id}/credentials", body)))


@modules.command("revoke")
@click.argument("module_id", metavar="MODULE", type=KEY)
@click.argument("credential_id", metavar="CREDENTIAL", type=click.UUID)
@click.option("--force", is_flag=True, help="Even if it is the last: the module is locked out then.")
@shared_options
@pass_options
def revoke(options: Options, *, module_id: str, credential_id: UUID, force: bool) -> None:
    """Refuse a credential from now on."""
    path = f"/v1/modules/{module_id}/credentials/{credential_id}/revoke"
    query = {"force": "true"} if force else {}
    _show(options, asyncio.run(_call(options, "POST", path, params=query)))


async def _call(
    options: Options, method: str, path: str, body: object = None, params: dict[str, str] | None = None
) -> Any:  # noqa: ANN401 - JSON
    async with open_session() as session:
        api = operator_api(session, resolve_target(options.endpoints))
        return await api.call(method, path, json=body, params=params)


def _show(options: Options, answer: dict[str, Any] | None) -> None:
    if options.json:
        show_json(answer)
    elif answer is None:
        note("Done.")
    else:
        show_fields(list(answer.items()))
