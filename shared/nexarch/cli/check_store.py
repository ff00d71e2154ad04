"""`nexarch check-store`: whether the object store holds what a tenant's documents need, and nothing else."""

import asyncio
import time
from typing import Any

import click

from nexarch.cli.arguments import SLUG
from nexarch.cli.client import Api, documents_api, open_session
from nexarch.cli.failures import FAILED, Unavailable
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, state, when
from nexarch.cli.target import resolve_target

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


@click.command("check-store")
@click.argument("slug", metavar="[TENANT]", required=False, type=SLUG)
@click.option("--all", "everything", is_flag=True, help="Read all objects, not only a sample.")
@click.option("--wait", is_flag=True, help="Wait for the end, and show what was found.")
@click.option("--timeout", "timeout_s", type=float, default=3600.0, show_default=True, help="Seconds, with --wait.")
@shared_options
@pass_options
def check_store(options: Options, *, slug: str | None, everything: bool, wait: bool, timeout_s: float) -> None:
    """Have the workers check the object store.

    That of TENANT, as an operator, or else of your own tenant, as its admin. Objects that nothing refers to are
    removed; documents whose file is missing or damaged are shown as `damaged`. With --wait the exit code is 1 if
    there are any.
    """
    check = asyncio.run(_check(options, slug, "all" if everything else "sample", timeout_s if wait else None))
    if options.json:
        show_json(check)
    else:
        _show(check)
    if check["missing"] or check["damaged"] or check["unreadable_keys"]:
        click.get_current_context().exit(FAILED)


async def _check(options: Options, slug: str | None, scope: str, timeout_s: float | None) -> dict[str, Any]:
    params = {} if slug is None else {"tenant": slug}
    async with open_session() as session:
        api = documents_api(session, resolve_target(options.endpoints), as_operator=slug is not None)
        ordered: dict[str, Any] = await api.call("POST", "/v1/store-checks", json={"scope": scope}, params=params)
        if timeout_s is None:
            return ordered
        return await _finished(api, ordered["id"], params, timeout_s)


async def _finished(api: Api, check_id: str, params: dict[str, str], timeout_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        check: dict[str, Any] = await api.call("GET", f"/v1/store-checks/{check_id}", params=params)
        if check["finished_at"] is not None:
            return check
        if time.monotonic() + pause > deadline:
            raise Unavailable(
                f"The check is not finished after {timeout_s:g} s.",
                hint="It goes on; `nexarch jobs list --type check_store` shows how far it is.",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _show(check: dict[str, Any]) -> None:
    findings = check.pop("findings", None)
    times = {"created_at", "finished_at"}
    show_fields([(name, when(value) if name in times else value) for name, value in check.items()])
    if findings:
        rows = [(each["storage_key"], state(each["kind"]), each["document_ids"]) for each in findings]
        show_table(["object", "finding", "documents"], rows)
    elif findings is None:
        note("The workers check it; --wait waits for the end.")
