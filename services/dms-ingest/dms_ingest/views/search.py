"""HTTP in and out of the search."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, Field

from dms_ingest.search import Hit, Marks, search
from dms_ingest.views.lists import rank_cursor
from nexarch.pages import PageQuery, page_of
from nexarch.routing import json_response
from nexarch.tenant_module import tenant_connection


class SearchQuery(PageQuery):
    """What to search for, as in web searches: words, "phrases", -without, or."""

    q: Annotated[str, Field(max_length=2000, description="The first 500 characters and 32 words of it count")]


class SnippetPart(BaseModel):
    """A piece of plain text; `hit` says that it was searched for. Escape it before it goes into HTML."""

    text: str
    hit: bool


class HitAnswer(BaseModel):
    """One document that was found."""

    document_id: UUID
    name: str
    folder_id: UUID | None
    mime_type: str | None
    created_at: datetime
    rank: float
    snippet: Sequence[SnippetPart] = Field(description="Text around the words, in order; empty: only the name matches")


class HitPage(BaseModel):
    """What was found, best first."""

    items: Sequence[HitAnswer]
    next_cursor: str | None


async def find(request: web.Request, query: SearchQuery) -> web.Response:
    """`GET /v1/search`: documents by words of their names and texts, best first."""
    after = rank_cursor(query.cursor)
    marks = Marks.new()
    async with tenant_connection(request) as conn, conn.transaction(readonly=True):
        hits = await search(conn, query.q, marks, after=after, limit=query.limit + 1)
    page, cursor = page_of(hits, query.limit, lambda hit: (repr(hit.rank), str(hit.document_id)))
    return json_response(HitPage(items=[_answer(hit, marks) for hit in page], next_cursor=cursor))


def _answer(hit: Hit, marks: Marks) -> HitAnswer:
    parts = [] if hit.snippet is None else marks.split(hit.snippet)
    return HitAnswer(
        document_id=hit.document_id,
        name=hit.name,
        folder_id=hit.folder_id,
        mime_type=hit.mime_type,
        created_at=hit.created_at,
        rank=hit.rank,
        snippet=[SnippetPart(text=part.text, hit=part.hit) for part in parts],
    )
