"""`nexarch download`: a document back out, its digest checked."""

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from nexarch.cli.client import documents_api, open_session
from nexarch.cli.downloading import Content, cut_name, download_to_file, download_to_stream, look_up
from nexarch.cli.failures import Failure
from nexarch.cli.options import Options, pass_options, retry_option, shared_options
from nexarch.cli.output import clean, note, show_json, show_line, size, transfer_progress
from nexarch.cli.target import resolve_target

_STDOUT = Path("-")


@click.command()
@click.argument("document_id", metavar="DOCUMENT", type=click.UUID)
@click.option("--revision", type=click.IntRange(1), help="Number of the revision; without it, the newest.")
@click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True, path_type=Path),
    default=Path(),
    help="A file, a folder, or - for stdout; without it, the document's name in this folder.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@retry_option
@shared_options
@pass_options
def download(
    options: Options, *, document_id: UUID, revision: int | None, output: Path, force: bool, retry_for: float
) -> None:
    """Download a document.

    The file appears only when it is whole and its SHA-256 is right. After a broken line the rest is asked for; if
    the command ends before, the same command goes on where it stopped.
    """
    if output == _STDOUT and options.json:
        raise click.UsageError("--json and --output - both want stdout.")
    path = f"/v1/documents/{document_id}/content"
    if revision is not None:
        path = f"/v1/documents/{document_id}/revisions/{revision}/content"
    content, destination = asyncio.run(_download(options, path, output, force, retry_for))
    if options.json:
        show_json(_shown(content, destination))
    elif output == _STDOUT:
        note(f"{size(content.size_bytes)}, SHA-256 {content.sha256} is right.")
    else:
        show_line(f"{destination}: {size(content.size_bytes)}, SHA-256 {content.sha256} is right.")


def _shown(content: Content, destination: Path) -> dict[str, Any]:
    return {"file": str(destination), "size_bytes": content.size_bytes, "sha256": content.sha256}


async def _download(options: Options, path: str, output: Path, force: bool, retry_for_s: float) -> tuple[Content, Path]:
    target = resolve_target(options.endpoints)
    async with open_session() as session:
        api = documents_api(session, target)
        content = await look_up(api, path)
        with transfer_progress() as bar:
            task = bar.add_task(clean(content.filename), total=content.size_bytes)

            def progress(done: int) -> None:
                bar.update(task, completed=done)

            if output == _STDOUT:
                await download_to_stream(api, content, sys.stdout.buffer, retry_for_s=retry_for_s, progress=progress)
                return content, output
            destination = _destination(output, content.filename, force)
            await download_to_file(api, content, destination, retry_for_s=retry_for_s, progress=progress)
            return content, destination


def _destination(output: Path, filename: str, force: bool) -> Path:
    destination = output / safe_name(filename) if output.is_dir() else output
    if destination.exists() and not force:
        raise Failure(f"{destination} is there already.", hint="Give --force or another --output.")
    if not destination.parent.is_dir():
        raise Failure(f"There is no folder {destination.parent}.")
    return destination


def safe_name(filename: str) -> str:
    """A name that a stranger gave, as a name in one folder: no path, no hidden file, nothing invisible."""
    name = clean(filename).replace("/", "_").replace("\\", "_").lstrip(".")
    return cut_name(name, 240) or "document"  # most file systems take 255 bytes
