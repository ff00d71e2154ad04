"""`nexarch usage`: what tenants store, counted anew."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.client import Api, documents_api, open_session, operator_api
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_json, show_table
from nexarch.cli.target import resolve_target

_TOLD_WITHIN_S = 15.0
_PAUSE_S = 0.1


@click.group()
def usage() -> None:
    """What tenants store, for operators."""


@usage.command("recount")
@click.argument("slugs", metavar="[TENANT]...", nargs=-1, type=SLUG)
@shared_options
@pass_options
def recount(options: Options, *, slugs: Sequence[str]) -> None:
    """Count anew what tenants store, all of them or some, and set their counters right.

    Both are: that of the tenant, which its quota is held against, and that of core-api.
    """
    rows = asyncio.run(_recount(options, slugs))
    if options.json:
        show_json({"items": rows})
    else:
        columns = ["tenant", "before", "after", "delta", "core-api before", "core-api after"]
        show_table(columns, [tuple(row.values()) for row in rows], nothing="There is no tenant.")
    for row in rows:
        if row["core_after"] != row["after"]:
            note(
                f"{row['tenant']}: core-api counts {row['core_after']} bytes so far; it is told of every change, "
                "so ask `nexarch usage recount` again."
            )


async def _recount(options: Options, slugs: Sequence[str]) -> list[dict[str, Any]]:
    async with open_session() as session:
        target = resolve_target(options.endpoints)
        core = operator_api(session, target)
        ingest = documents_api(session, target, as_operator=True)
        return [await _recount_one(core, ingest, slug) for slug in slugs or await _active(core)]


async def _active(core: Api) -> list[str]:
    page = await core.page("/v1/tenants", {}, None, None)
    return [tenant["slug"] for tenant in page["items"] if tenant["status"] == "active"]


async def _recount_one(core: Api, ingest: Api, slug: str) -> dict[str, Any]:
    core_before = await _core_bytes(core, slug)
    await core.call("POST", f"/v1/tenants/{slug}/usage/recount")
    found = await ingest.call("POST", "/v1/usage/recount", params={"tenant": slug})
    return {
        "tenant": slug,
        "before": found["before_bytes"],
        "after": found["stored_bytes"],
        "delta": found["stored_bytes"] - found["before_bytes"],
        "core_before": core_before,
        "core_after": await _told(core, slug, found["stored_bytes"]),
    }


async def _told(core: Api, slug: str, stored_bytes: int) -> int:
    """What core-api counts once it was told; who stores meanwhile may keep the two from ever being the same."""
    deadline = time.monotonic() + _TOLD_WITHIN_S
    while True:
        counted = await _core_bytes(core, slug)
        if counted == stored_bytes or time.monotonic() > deadline:
            return counted
        await asyncio.sleep(_PAUSE_S)


async def _core_bytes(core: Api, slug: str) -> int:
    page = await core.call("GET", "/v1/usage", params={"tenant": slug})
    return next((int(total["value"]) for total in page["items"] if total["metric"] == "storage_bytes"), 0)
