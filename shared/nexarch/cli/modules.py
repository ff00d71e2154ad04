"""`nexarch modules`: the services that core-api knows, and their credentials, as an operator."""

from typing import Any
from uuid import UUID

import click

from nexarch.cli.arguments import KEY
from nexarch.cli.operating import list_for_operator, operator_call
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, when


@click.group()
def modules() -> None:
    """Modules and their credentials, for operators."""


@modules.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, *, limit: int, everything: bool, cursor: str | None) -> None:
    """List modules."""
    list_for_operator(
        options,
        "/v1/modules",
        lambda module: (
            module["id"],
            module.get("version"),
            module.get("base_url"),
            ", ".join(module.get("required_flags") or []),
            ", ".join(module.get("scopes") or []),
        ),
        columns=["id", "version", "address", "required flags", "scopes"],
        nothing="There is no module yet.",
        limit=None if everything else limit,
        cursor=cursor,
    )


@modules.command("show")
@click.argument("module_id", metavar="MODULE", type=KEY)
@shared_options
@pass_options
def show(options: Options, *, module_id: str) -> None:
    """Show one module."""
    _show(options, operator_call(options, "GET", f"/v1/modules/{module_id}"))


@modules.command("credentials")
@click.argument("module_id", metavar="MODULE", type=KEY)
@shared_options
@pass_options
def credentials(options: Options, *, module_id: str) -> None:
    """List a module's credentials, without their secrets."""
    answer = operator_call(options, "GET", f"/v1/modules/{module_id}/credentials")
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
    _show(options, operator_call(options, "POST", f"/v1/modules/{module_id}/credentials", body))


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
    _show(options, operator_call(options, "POST", path, params=query))


def _show(options: Options, answer: dict[str, Any] | None) -> None:
    if options.json:
        show_json(answer)
    elif answer is None:
        note("Done.")
    else:
        show_fields(list(answer.items()))
