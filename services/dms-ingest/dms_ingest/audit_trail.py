"""Reading the audit trail, for a tenant's admins."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

from nexarch.db import Connection, fetch_all

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One row of `audit_events`, with the address that its user signs in with."""

    id: UUID  # UUIDv7, so it holds the time
    at: datetime
    action: str
    user_id: UUID | None
    user_email: str | None
    document_id: UUID | None
    revision_id: UUID | None
    link_key_id: str | None
    request_id: str | None
    address: IPv4Address | IPv6Address | None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events a list shows: those that all of these fit; None does not restrict."""

    document_id: UUID | None = None
    user_id: UUID | None = None
    action: str | None = None
    since: datetime | None = None  # with it; to the millisecond
    until: datetime | None = None  # without it


async def list_events(conn: Connection, which: AuditFilter, *, before: UUID | None, limit: int) -> list[AuditEvent]:
    """Events, newest first, from the one below `before`."""
    sql = """
        SELECT e.id, uuid_extract_timestamp(e.id) AS at, e.action, e.user_id, u.email AS user_email, e.document_id,
            e.revision_id, e.link_key_id, e.request_id, e.address, e.details
        FROM audit_events AS e LEFT JOIN users AS u ON u.id = e.user_id
        WHERE ($1::uuid IS NULL OR e.id < $1)
            AND ($2::uuid IS NULL OR e.document_id = $2)
            AND ($3::uuid IS NULL OR e.user_id = $3)
            AND ($4::text IS NULL OR e.action = $4)
            AND ($5::uuid IS NULL OR e.id >= $5)
            AND ($6::uuid IS NULL OR e.id < $6)
        ORDER BY e.id DESC
        LIMIT $7
    """
    since, until = _first_id(which.since), _first_id(which.until)
    return await fetch_all(
        conn, AuditEvent, sql, before, which.document_id, which.user_id, which.action, since, until, limit
    )


def _first_id(time: datetime | None) -> UUID | None:
    """The lowest UUIDv7 of a millisecond (RFC 9562, 5.7)."""
    if time is None:
        return None
    milliseconds = max(0, (time - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (0b10 << 62))
