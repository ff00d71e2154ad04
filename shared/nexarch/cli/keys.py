"""`nexarch keys`: versions of tenants' keys, their rotation and destruction, and another master key."""

import asyncio
import json
import sys
from typing import Any

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.failures import Failure
from nexarch.cli.operating import operator_call
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_json, show_table, state, when

_SOMETHING_LEFT = 1


@click.group()
def keys() -> None:
    """Tenants' keys and the master key, for operators."""


@keys.command("list")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def list_(options: Options, slug: str) -> None:
    """List the versions of a tenant's key."""
    _show(options, operator_call(options, "GET", f"/v1/tenants/{slug}/kek/versions"))


@keys.command("rotate")
@click.argument("slug", type=SLUG)
@shared_options
@pass_options
def rotate(options: Options, slug: str) -> None:
    """Give a tenant a new key.

    The workers wrap what older versions hold anew and then retire them; no file is rewritten, and the tenant works on.
    """
    _show(options, operator_call(options, "POST", f"/v1/tenants/{slug}/kek/rotate"))


@keys.command("shred")
@click.argument("slug", type=SLUG)
@click.option("--confirm", required=True, help="The tenant's slug once more: nobody can undo this.")
@shared_options
@pass_options
def shred(options: Options, slug: str, confirm: str) -> None:
    """Destroy all keys of a suspended tenant: its files can never be read again."""
    _show(options, operator_call(options, "POST", f"/v1/tenants/{slug}/kek/shred", {"confirm": confirm}))


@keys.command("rotate-master")
@shared_options
@pass_options
def rotate_master(options: Options) -> None:
    """Seal anew what an older master key sealed, on core-api's host.

    CORE_API_MASTER_KEY (or _FILE) holds the new key and, on the next line, the old one; core-api runs with both.
    When nothing is left, the old one may go. Run it as often as wanted.
    """
    places = asyncio.run(_reseal())
    left = sum(place["left"] for place in places)
    if options.json:
        show_json({"places": places, "left": left})
    else:
        columns = ["sealed", "rows", "resealed", "left"]
        show_table(columns, [(place["place"], place["rows"], place["resealed"], place["left"]) for place in places])
        note(
            "Something is left: an older key is needed, or a row is damaged."
            if left
            else "Nothing needs an older master key any more."
        )
    if left:
        sys.exit(_SOMETHING_LEFT)


async def _reseal() -> list[dict[str, Any]]:
    """In a process of core-api's own, since nothing here may import a service."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "core_api.resealing",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if not out:
        raise Failure(err.decode(errors="replace").strip() or "core-api's part ended without a word.")
    places: list[dict[str, Any]] = json.loads(out)
    return places


def _show(options: Options, answer: dict[str, Any] | None) -> None:
    versions = [] if answer is None else answer["items"]
    if options.json:
        show_json(versions)
        return
    show_table(
        ["version", "state", "created", "retired", "shredded"],
        [
            (
                each["version"],
                state(each["state"]),
                when(each["created_at"]),
                when(each["retired_at"]),
                when(each["shredded_at"]),
            )
            for each in versions
        ],
    )
