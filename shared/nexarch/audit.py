"""The audit trail of a tenant: who did what to which document, in rows that services can add and nobody can change.

An event is written in the transaction of what it tells of, so that neither is without the other; that of a download
before the first byte leaves, so that no byte leaves unseen. What is written is ids and a few facts: no names, no texts,
no signatures.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from nexarch.db import Connection
from nexarch.errors import Json


class Action(StrEnum):
    """What is told of."""

    DOCUMENT_UPLOADED = "document.uploaded"
    DOCUMENT_DOWNLOADED = "document.downloaded"
    DOCUMENT_RENAMED = "document.renamed"
    DOCUMENT_MOVED = "document.moved"
    DOCUMENT_DELETED = "document.deleted"
    DOCUMENT_RESTORED = "document.restored"
    DOCUMENT_PURGED = "document.purged"
    REVISION_RESTORED = "revision.restored"
    LINK_MADE = "link.made"
    LINK_FOLLOWED = "link.followed"
    LINK_REVOKED = "link.revoked"
    FOLDER_RENAMED = "folder.renamed"
    FOLDER_MOVED = "folder.moved"
    FOLDER_DELETED = "folder.deleted"
    SETTINGS_CHANGED = "settings.changed"


@dataclass(frozen=True, slots=True)
class Client:
    """Where a request comes from: its id, and the address of who sent it."""

    request_id: str | None
    address: str | None


# Who the events are for that are written from here; None outside of any request: the platform itself.
current_client: ContextVar[Client | None] = ContextVar("current_client", default=None)


def moved_to(folder_id: UUID | None) -> Mapping[str, Json]:
    """The details of a move into a folder; None: to the top level."""
    return {"to": None if folder_id is None else str(folder_id)}


async def record(
    conn: Connection,
    action: Action,
    *,
    user_id: UUID | None,
    document_id: UUID | None = None,
    revision_id: UUID | None = None,
    link_key_id: str | None = None,
    details: Mapping[str, Json] | None = None,
) -> None:
    """Write one event; the request's id and address are those of `current_client`."""
    sql = """
        INSERT INTO audit_events
            (action, user_id, document_id, revision_id, link_key_id, request_id, address, details)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    """
    client = current_client.get() or Client(None, None)
    await conn.execute(
        sql,
        action,
        user_id,
        document_id,
        revision_id,
        link_key_id,
        client.request_id,
        client.address,
        dict(details or {}),
    )


async def record_each(
    conn: Connection,
    action: Action,
    document_ids: Sequence[UUID],
    *,
    user_id: UUID | None,
    details: Sequence[Mapping[str, Json]] | None = None,
) -> None:
    """Write an event for each of these documents, with its own of the `details` if there are some."""
    sql = """
        INSERT INTO audit_events (action, user_id, document_id, request_id, address, details)
        SELECT $1, $2, of.document_id, $3, $4, of.details
        FROM unnest($5::uuid[], $6::jsonb[]) AS of (document_id, details)
    """
    client = current_client.get() or Client(None, None)
    facts = [{}] * len(document_ids) if details is None else [dict(of) for of in details]
    await conn.execute(sql, action, user_id, client.request_id, client.address, document_ids, facts)
