"""`nexarch settings`: what a tenant's admins decide about its uploads and its trash."""

import asyncio
from typing import Any

import click

from nexarch.cli.client import documents_api, open_session
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import show_fields, show_json, size, when
from nexarch.cli.target import resolve_target

_DEFAULT = "default"


class _OrDefault(click.ParamType[int | str]):
    """A number of bytes, or `default`."""

    name = f"bytes|{_DEFAULT}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:  # noqa: ANN401
        return _DEFAULT if value == _DEFAULT else click.INT.convert(value, param, ctx)


@click.group()
def settings() -> None:
    """What a tenant's admins decide about uploads and the trash."""


@settings.command("show")
@shared_options
@pass_options
def show(options: Options) -> None:
    """Show the tenant's settings."""
    _show(options, asyncio.run(_call(options, "GET")))


@settings.command("set")
@click.option(
    "--duplicates",
    type=click.Choice(["reject", "link", "allow"]),
    help="A file that a document has already: refuse it, make a document of the stored bytes, or store it again.",
)
@click.option("--allowed-types", metavar="TYPE,...", help="Media types or type/*; `default`: those of the service.")
@click.option("--max-upload-bytes", type=_OrDefault(), help="Of one file; `default`: the limit of the service.")
@click.option("--quota-bytes", type=_OrDefault(), help="Of all documents together; `default`: no limit.")
@click.option("--trash-days", type=click.IntRange(0), help="In the trash; 0: until an admin removes it.")
@shared_options
@pass_options
def set_(options: Options, /, *, allowed_types: str | None, **given: object) -> None:
    """Change what is given; the rest stays. It holds at once, for what comes."""
    change = {name: None if value == _DEFAULT else value for name, value in given.items() if value is not None}
    if allowed_types is not None:
        listed = [each.strip() for each in allowed_types.split(",")]
        change["allowed_types"] = None if allowed_types == _DEFAULT else listed
    if not change:
        raise click.UsageError("Name a setting to change; `nexarch settings set --help` lists them.")
    _show(options, asyncio.run(_call(options, "PATCH", change)))


async def _call(options: Options, method: str, body: object = None) -> dict[str, Any]:
    async with open_session() as session:
        api = documents_api(session, resolve_target(options.endpoints))
        answer: dict[str, Any] = await api.call(method, "/v1/settings", json=body)
        return answer


def _show(options: Options, answer: dict[str, Any]) -> None:
    if options.json:
        show_json(answer)
        return
    types = answer["allowed_types"]
    show_fields(
        [
            ("duplicates", answer["duplicates"]),
            ("allowed types", "those of the service" if types is None else ", ".join(types)),
            ("largest file", size(answer["max_upload_bytes"]) or "the limit of the service"),
            ("quota", size(answer["quota_bytes"]) or "none"),
            ("days in the trash", answer["trash_days"] or "until an admin removes it"),
            ("changed", when(answer["updated_at"])),
        ]
    )
