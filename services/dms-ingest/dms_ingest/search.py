"""Search over names and texts of a tenant's documents; what is a word and what a hit is said in the schema."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from nexarch.db import Connection, fetch_all
from nexarch.errors import Unavailable

TIMEOUT_S = 10


class SearchTooSlow(Unavailable):
    """The search took too long and was given up; with more or rarer words it is faster."""

    code = "search-too-slow"
    title = "The search took too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One document that was found; `snippet` holds its marks around the words (None: only the name was found)."""

    document_id: UUID
    name: str
    folder_id: UUID | None
    created_at: datetime
    mime_type: str | None
    rank: float
    snippet: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a snippet, in reading order; `hit` says that it is what was searched for."""

    text: str
    hit: bool


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands before and after each hit within a snippet; new for each search, so no text can hold it."""

    start: str
    stop: str

    @classmethod
    def new(cls) -> "Marks":
        """Marks that nobody could have written into a document."""
        token = secrets.token_hex(12)
        return cls(f"s{token}", f"e{token}")

    def split(self, snippet: str) -> list[Part]:
        """A snippet in parts; their texts, joined, are the snippet without its marks."""
        parts: list[Part] = []
        before, *marked = snippet.split(self.start)
        for piece in [f"{self.stop}{before}", *marked]:
            hit, _, after = piece.partition(self.stop)
            parts += [Part(hit, True), Part(after, False)]
        return [part for part in parts if part.text]


async def search(
    conn: Connection, query: str, marks: Marks, *, after: tuple[float, UUID] | None, limit: int
) -> Sequence[Hit]:
    """The documents that a query finds, best first, from the one behind `after`; call it in a transaction.

    Not those in the trash, and only current revisions. Only the texts of this page are read for their snippets,
    and of each only the part with most of the words. Raises SearchTooSlow.
    """
    sql = """
        WITH page AS MATERIALIZED (
            SELECT document_id, rank::float8 AS rank, revision_id, part
            FROM search_documents($1)
            WHERE $2::float8 IS NULL OR (rank::float8, document_id) < ($2::float8, $3::uuid)
            ORDER BY rank DESC, document_id DESC
            LIMIT $4
        )
        SELECT d.id AS document_id, d.name, d.folder_id, d.created_at, r.mime_type, page.rank,
            search_snippet(t.content, $1, $5, $6) AS snippet
        FROM page
        JOIN documents AS d ON d.id = page.document_id
        LEFT JOIN file_revisions AS r ON r.id = page.revision_id
        LEFT JOIN document_texts AS t ON t.revision_id = page.revision_id AND t.part = page.part
        ORDER BY page.rank DESC, page.document_id DESC
    """
    await _limit_time(conn)
    rank, document_id = after if after is not None else (None, None)
    try:
        return await fetch_all(conn, Hit, sql, query, rank, document_id, limit, marks.start, marks.stop)
    except asyncpg.QueryCanceledError as error:
        raise SearchTooSlow(f"The search took more than {TIMEOUT_S} seconds.", retry_after_s=5) from error


async def _limit_time(conn: Connection) -> None:
    """For this transaction, so that a search nobody waits for any more does not go on."""
    await conn.execute("SELECT set_config('statement_timeout', $1, true)", f"{TIMEOUT_S}s")
