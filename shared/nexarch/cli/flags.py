"""`nexarch flags`: which features are on, as an operator."""

import asyncio
from typing import Any

import click

from nexarch.cli.arguments import KEY, SLUG
from nexarch.cli.client import open_session, operator_api
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, when
from nexarch.cli.target import resolve_target


@click.group()
def flags() -> None:
    """Feature flags, for operators."""


@flags.command("list")
@page_options
@shared_options
@pass_options
def list_(options: Options, *, limit: int, everything: bool, cursor: str | None) -> None:
    """List flags."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = operator_api(session, resolve_target(options.endpoints))
            return await api.page("/v1/flags", {}, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [
        (
            f["key"],
            "yes" if f["enabled_for_all"] else "no",
            ", ".join(f.get("tenants") or []),
            when(f.get("updated_at")),
        )
        for f in page["items"]
    ]
    show_table(["key", "for all", "for tenants", "changed"], rows, nothing="There is no flag: each is off.")
    if page["next_cursor"]:
        note("There are more: use --all.")


@flags.command("set")
@click.argument("key", type=KEY)
@click.option("--on/--off", "enabled", default=True, show_default=True, help="For all tenants.")
@click.option("--tenant", "tenants", multiple=True, type=SLUG, help="On for this tenant; may be given again.")
@shared_options
@pass_options
def set_(options: Options, *, key: str, enabled: bool, tenants: tuple[str, ...]) -> None:
    """Switch a flag on or off for all tenants, or (--off --tenant SLUG) on for some."""
    body = {"enabled_for_all": enabled, "tenants": list(tenants)}
    flag = asyncio.run(_call(options, "PUT", f"/v1/flags/{key}", body))
    if options.json:
        show_json(flag)
    else:
        show_fields(list(flag.items()))


@flags.command("delete")
@click.argument("key", type=KEY)
@shared_options
@pass_options
def delete(options: Options, *, key: str) -> None:
    """Forget a flag; an unknown flag is off."""
    asyncio.run(_call(options, "DELETE", f"/v1/flags/{key}"))
    if options.json:
        show_json({"key": key, "deleted": True})
    else:
        note(f"Deleted {key}.")


async def _call(options: Options, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    async with open_session() as session:
        return await operator_api(session, resolve_target(options.endpoints)).call(method, path, json=body)
