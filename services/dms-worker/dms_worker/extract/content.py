"""What a reader hands on, before it is cleaned and cut to the limits."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The text of one file; `pages` is read once and may raise Unreadable while it is."""

    pages: Iterator[str]
    page_count: int | None = None  # where the format has pages
    cut: bool = False  # the file goes on after the last page
