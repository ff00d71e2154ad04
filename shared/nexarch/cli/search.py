"""`nexarch search`: full text, with the hits highlighted."""

import asyncio
from typing import Any

import click

from nexarch.cli.client import documents_api, open_session
from nexarch.cli.options import Options, page_options, pass_options, shared_options
from nexarch.cli.output import highlighted, note, show_json, show_table
from nexarch.cli.target import resolve_target


@click.command()
@click.argument("words", nargs=-1, required=True)
@page_options
@shared_options
@pass_options
def search(options: Options, *, words: tuple[str, ...], limit: int, everything: bool, cursor: str | None) -> None:
    """Find documents by their text.

    "exact words", OR and -without are understood. No hit is an answer too: the exit code is 0.
    """

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            api = documents_api(session, resolve_target(options.endpoints))
            return await api.page("/v1/search", {"q": " ".join(words)}, None if everything else limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    rows = [(hit["document_id"], hit["name"], highlighted(hit.get("snippet") or [])) for hit in page["items"]]
    show_table(["document", "name", "text"], rows)
    if page["next_cursor"]:
        note("There are more: use --all.")
