"""What the commands of operators have in common: calls to core-api with the operator's token, and lists."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nexarch.cli.client import open_session, operator_api
from nexarch.cli.options import Options
from nexarch.cli.output import note, show_json, show_table
from nexarch.cli.target import resolve_target


def operator_call(
    options: Options, method: str, path: str, body: object = None, params: Mapping[str, str] | None = None
) -> Any:  # noqa: ANN401 - JSON
    """The JSON that core-api answers, None for an empty answer; `Failure` where it refuses."""

    async def ask() -> Any:  # noqa: ANN401 - JSON
        async with open_session() as session:
            api = operator_api(session, resolve_target(options.endpoints))
            return await api.call(method, path, json=body, params=params)

    return asyncio.run(ask())


def list_for_operator(
    options: Options,
    path: str,
    row: Callable[[dict[str, Any]], Sequence[object]],
    *,
    columns: Sequence[str],
    nothing: str,
    limit: int | None,
    cursor: str | None,
) -> None:
    """Print a list of core-api, to its end where `limit` is None; `nothing` is said of an empty one."""

    async def ask() -> dict[str, Any]:
        async with open_session() as session:
            return await operator_api(session, resolve_target(options.endpoints)).page(path, {}, limit, cursor)

    page = asyncio.run(ask())
    if options.json:
        show_json(page)
        return
    show_table(columns, [row(item) for item in page["items"]], nothing=nothing)
    if page["next_cursor"]:
        note("There are more: use --all.")
