"""What commands print: tables for people, JSON for programs, progress on a terminal's stderr.

Names of documents and texts of hits come from strangers: control characters and the marks that turn the reading
direction are replaced, so that no text can move the cursor or disguise a file's ending.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

# C0, DEL, C1, line and paragraph separators, bidirectional controls.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_BREAKS = re.compile(r"\s+")
_WIDE_ENOUGH = 4000  # columns of a pipe: a program that cuts columns wants every row on one line


def show_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def show_line(text: str) -> None:
    """Print one line for people on stdout."""
    click.echo(clean(text))


def note(text: str) -> None:
    """Print one line on stderr, so that stdout holds the answer alone."""
    click.echo(clean(text), err=True)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, nothing: str = "Nothing found.") -> None:
    """Print rows as a table; a cell that is a `Text` keeps its style."""
    if not rows:
        note(nothing)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column,
            overflow="fold",
            no_wrap=column in _COPIED,
            justify="right" if column in _NUMERIC else "left",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row))
    _stdout().print(table)


def show_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print one thing as name and value, a line each."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, value if isinstance(value, Text) else Text(clean(value)))
    _stdout().print(table)


_NUMERIC = {"size", "revision", "attempts", "version", "pending", "rows", "resealed", "left"}
_COPIED = {"id", "document", "job"}  # ids, which people copy: never broken over two lines


def clean(value: object) -> str:
    """A value as text that is safe on a terminal; None is empty, lists and objects are JSON."""
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text)


def highlighted(parts: Sequence[Mapping[str, Any]]) -> Text:
    """A snippet of a search, given as `{"text", "hit"}` in reading order, its hits in bold."""
    text = Text()
    for part in parts:
        text.append(clean(_LINE_BREAKS.sub(" ", part["text"])), style="bold yellow" if part["hit"] else "")
    return text


def size(count: int | None) -> str:
    """Bytes for people: `12.3 MiB`."""
    if count is None:
        return ""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def when(moment: str | None) -> str:
    """An ISO 8601 moment in this computer's zone, to the second."""
    if not moment:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def state(name: str | None) -> Text:
    """A state in its colour."""
    text = clean(name)
    return Text(text, style=_COLOURS.get(text, ""))


_COLOURS = {
    "processed": "green",
    "active": "green",
    "succeeded": "green",
    "ok": "green",
    "queued": "cyan",
    "pending": "cyan",
    "processing": "cyan",
    "warn": "yellow",
    "suspended": "yellow",
    "failed": "red",
    "damaged": "red",
    "fail": "red",
    "dead_letter": "red",
}


def transfer_progress() -> Progress:
    """A progress bar for bytes, on stderr and only on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)


def count_progress() -> Progress:
    """A progress bar for things, on stderr and only on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)


def _stdout() -> Console:
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=_WIDE_ENOUGH)
