"""`nexarch upload`: files into the platform, resumable."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import click
from rich.progress import Progress

from nexarch.cli.client import Api, documents_api, open_session
from nexarch.cli.failures import FAILED, Failure, NotAuthorised, Unavailable
from nexarch.cli.media_types import media_type
from nexarch.cli.options import Options, pass_options, retry_option, shared_options
from nexarch.cli.output import clean, note, show_json, show_table, size, state, transfer_progress
from nexarch.cli.processing import wait_until_processed
from nexarch.cli.target import resolve_target
from nexarch.cli.uploading import UploadRequest, upload_file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one file."""

    path: Path
    document: dict[str, Any] | None
    failure: Failure | None

    def as_json(self) -> dict[str, Any]:
        error = self.failure and {"code": self.failure.code or None, "detail": self.failure.message}
        return {"file": _text(self.path), "document": self.document, "error": error}


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--folder", "folder_id", type=click.UUID, help="Id of the folder to put it in.")
@click.option("--document", "document_id", type=click.UUID, help="Id of the document that gets a new revision.")
@click.option("--name", help="Name of the document; without it, the file's name. For a single file.")
@click.option("--type", "mime_type", help="Media type; without it, by the ending of the name.")
@click.option("--wait", is_flag=True, help="Wait until the workers have processed it, and show the state.")
@click.option("--wait-for", type=click.FloatRange(0), default=300.0, show_default=True, help="Seconds for --wait.")
@retry_option
@shared_options
@pass_options
def upload(
    options: Options,
    *,
    files: tuple[Path, ...],
    folder_id: UUID | None,
    document_id: UUID | None,
    name: str | None,
    mime_type: str | None,
    wait: bool,
    wait_for: float,
    retry_for: float,
) -> None:
    """Upload files.

    A line that breaks or a server that restarts costs nothing: what arrived is kept and only the rest is sent. If the
    command ends before the upload does, the same command goes on where it stopped.

    With --wait the exit code is 1 if a document could not be processed, and 5 if it took longer than --wait-for.
    """
    if len(files) > 1 and (name is not None or document_id is not None):
        raise click.UsageError("--name and --document are for a single file.")
    requests = [_request(path, name, mime_type, folder_id, document_id) for path in files]
    outcomes = asyncio.run(_upload(options, requests, retry_for, wait_for if wait else None))
    if options.json:
        show_json({"items": [outcome.as_json() for outcome in outcomes]})
    elif rows := [_row(outcome) for outcome in outcomes if outcome.document]:
        show_table(["document", "revision", "size", "state", "name"], rows)
    failures = [outcome for outcome in outcomes if outcome.failure is not None]
    for outcome in failures:
        note(f"nexarch: {_text(outcome.path)}: {outcome.failure}")
    if failures:
        failure = failures[0].failure
        click.get_current_context().exit(FAILED if failure is None else failure.exit_code)


def _request(
    path: Path, name: str | None, mime_type: str | None, folder_id: UUID | None, document_id: UUID | None
) -> UploadRequest:
    filename = name or os.fsencode(path.name).decode("utf-8", "replace")
    return UploadRequest(
        path=path,
        filename=filename,
        mime_type=mime_type or media_type(filename),
        folder_id=folder_id,
        document_id=document_id,
    )


async def _upload(
    options: Options, requests: Sequence[UploadRequest], retry_for_s: float, wait_s: float | None
) -> list[_Outcome]:
    """Upload one after the other; a refused file does not stop the next, a lost server or login does."""
    target = resolve_target(options.endpoints)
    outcomes: list[_Outcome] = []
    with transfer_progress() as bar:
        async with open_session() as session:
            api = documents_api(session, target)
            for request in requests:
                document = None
                failure: Failure | None = None
                try:
                    document = await _upload_one(api, target.tenant or "", request, retry_for_s, bar)
                    if wait_s is not None:
                        document = await wait_until_processed(api, document["id"], wait_s)
                        failure = _failed_processing(document)
                except Failure as error:
                    failure = error
                outcomes.append(_Outcome(path=request.path, document=document, failure=failure))
                if isinstance(failure, Unavailable | NotAuthorised):
                    break
    return outcomes


async def _upload_one(
    api: Api, tenant: str, request: UploadRequest, retry_for_s: float, bar: Progress
) -> dict[str, Any]:
    total = request.path.stat().st_size
    task = bar.add_task(clean(request.filename), total=total)

    def progress(what: str, done: int) -> None:
        bar.update(task, description=f"{what} {clean(request.filename)}", completed=done)

    return await upload_file(api, tenant, request, retry_for_s=retry_for_s, progress=progress)


def _failed_processing(document: dict[str, Any]) -> Failure | None:
    if document["processing_state"] != "failed":
        return None
    error = document.get("processing_error") or {}
    return Failure(
        f"Stored, but not processed: {error.get('detail', 'no reason given')}",
        hint="`nexarch documents retry` tries again.",
        code=error.get("code", ""),
    )


def _row(outcome: _Outcome) -> list[object]:
    document = outcome.document or {}
    revision = document.get("current_revision") or {}
    return [
        document.get("id"),
        revision.get("number"),
        size(revision.get("size")),
        state(document.get("processing_state")),
        document.get("name"),
    ]


def _text(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
