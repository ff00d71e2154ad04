"""`nexarch documents`: list, show, rename, move, delete, the trash and back from it, and retry."""

import asyncio
from typing import Any
from uuid import UUID

import click

from nexarch.cli.client import documents_api, open_session
from nexarch.cli.failures import FAILED
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import note, show_fields, show_json, show_table, size, state, when
from nexarch.cli.processing import wait_until_processed
from nexarch.cli.target import resolve_target

_ROOT = "root"
_STATES = ["queued", "processing", "processed", "failed", "damaged"]


@click.group()
def documents() -> None:
    """Documents of a tenant."""


@documents.command("list")
@click.option("--folder", help="Id of a folder, or `root` for documents in none.")
@click.option("--tag", help="Name of a tag they carry.")
@click.option("--text", help="A part of their name.")
@click.option("--state", "in_state", type=click.Choice(_STATES), help="Only those in this state.")
@page_options
@shared_options
@pass_options
def list_(
    options: Options,
    *,
    folder: str | None,
    tag: str | None,
    text: str | None,
    in_state: str | None,
    limit: int,
    everything: bool,
    cursor: str | None,
) -> None:
    """List documents, newest first."""
    given = {"folder": folder, "tag": tag, "text": text, "state": in_state}
    query = {name: value for name, value in given.items() if value is not None}
    page = asyncio.run(_page(options, "/v1/documents", query, None if everything else limit, cursor))
    if options.json:
        show_json(page)
        return
    show_table(["document", "revision", "size", "state", "changed", "name"], [_row(d) for d in page["items"]])
    if page["next_cursor"]:
        note("There are more: use --all.")


@documents.command("show")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@click.option("--wait", is_flag=True, help="Wait until the workers have processed it.")
@click.option("--wait-for", type=click.FloatRange(0), default=300.0, show_default=True, help="Seconds for --wait.")
@shared_options
@pass_options
def show(options: Options, *, document_id: UUID, wait: bool, wait_for: float) -> None:
    """Show one document with its processing state; with --wait, the exit code is 1 if it failed or is damaged."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = documents_api(session, resolve_target(options.endpoints))
            if wait:
                return await wait_until_processed(api, str(document_id), wait_for)
            document: dict[str, Any] = await api.call("GET", f"/v1/documents/{document_id}")
            return document

    document = asyncio.run(ask())
    _show(options, document)
    if wait and document["processing_state"] in {"failed", "damaged"}:
        click.get_current_context().exit(FAILED)


@documents.command("rename")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@click.argument("name")
@shared_options
@pass_options
def rename(options: Options, *, document_id: UUID, name: str) -> None:
    """Give a document another name."""
    _show(options, asyncio.run(_call(options, "PATCH", f"/v1/documents/{document_id}", {"name": name})))


@documents.command("move")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@click.argument("folder")
@shared_options
@pass_options
def move(options: Options, *, document_id: UUID, folder: str) -> None:
    """Move a document into the folder of this id, or with `root` out of its folder."""
    body = {"folder_id": None if folder == _ROOT else folder}
    _show(options, asyncio.run(_call(options, "PATCH", f"/v1/documents/{document_id}", body)))


@documents.command("delete")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@shared_options
@pass_options
def delete(options: Options, *, document_id: UUID) -> None:
    """Put a document into the trash."""
    asyncio.run(_call(options, "DELETE", f"/v1/documents/{document_id}"))
    if options.json:
        show_json({"id": str(document_id), "deleted": True})
    else:
        note(f"In the trash. `nexarch documents restore {document_id}` takes it out again.")


@documents.command("trash")
@page_options
@shared_options
@pass_options
def trash(options: Options, *, limit: int, everything: bool, cursor: str | None) -> None:
    """List what is in the trash, last deleted first, and when it is removed for good."""
    page = asyncio.run(_page(options, "/v1/trash", {}, None if everything else limit, cursor))
    if options.json:
        show_json(page)
        return
    rows = [(d["id"], size(d["size"]), when(d["deleted_at"]), when(d["purge_at"]), d["name"]) for d in page["items"]]
    show_table(["document", "size", "deleted", "removed", "name"], rows, nothing="The trash is empty.")
    if page["next_cursor"]:
        note("There are more: use --all.")


@documents.command("restore")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@shared_options
@pass_options
def restore(options: Options, *, document_id: UUID) -> None:
    """Take a document out of the trash, back into its folder."""
    document = asyncio.run(_call(options, "POST", f"/v1/documents/{document_id}/restore"))
    _show(options, document)
    if document["moved_to_top"]:
        note("Its folder is gone: it lies in none now.")


@documents.command("retry")
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@shared_options
@pass_options
def retry(options: Options, *, document_id: UUID) -> None:
    """Process a document again that failed."""
    _show(options, asyncio.run(_call(options, "POST", f"/v1/documents/{document_id}/retry")))


async def _call(options: Options, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    async with open_session() as session:
        return await documents_api(session, resolve_target(options.endpoints)).call(method, path, json=body)


async def _page(
    options: Options, path: str, query: dict[str, str], limit: int | None, cursor: str | None
) -> dict[str, Any]:
    async with open_session() as session:
        return await documents_api(session, resolve_target(options.endpoints)).page(path, query, limit, cursor)


def _row(document: dict[str, Any]) -> list[object]:
    revision = document.get("current_revision") or {}
    return [
        document["id"],
        revision.get("number"),
        size(revision.get("size")),
        state(document.get("processing_state")),
        when(document.get("updated_at")),
        document["name"],
    ]


def _show(options: Options, document: dict[str, Any]) -> None:
    if options.json:
        show_json(document)
        return
    revision = document.get("current_revision") or {}
    error = document.get("processing_error") or {}
    fields: list[tuple[str, object]] = [
        ("id", document["id"]),
        ("name", document["name"]),
        ("folder", document.get("folder_id") or _ROOT),
        ("tags", ", ".join(document.get("tags") or [])),
        ("state", state(document.get("processing_state"))),
        ("reason", error.get("detail")),
        ("revision", revision.get("number")),
        ("size", size(revision.get("size"))),
        ("type", revision.get("mime_type")),
        ("pages", document.get("page_count")),
        ("sha256", revision.get("sha256")),
        ("created", when(document.get("created_at"))),
        ("changed", when(document.get("updated_at"))),
    ]
    show_fields([(name, value) for name, value in fields if value])
