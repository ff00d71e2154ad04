"""Wrapped keys in rows: read in steps, and replaced only where they are still what was read."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from dms_worker.wrapped_keys import (
    Rewrapped,
    WrappedKey,
    older_object_keys,
    older_staging_keys,
    replace_object_keys,
    replace_staging_keys,
)
from nexarch.db import Connection
from support.documents import add_document

pytestmark = pytest.mark.database

START = UUID(int=0)
NEW, OTHER = b"n" * 60, b"o" * 60

Read = Callable[..., Awaitable[list[WrappedKey]]]
Replace = Callable[[Connection, Sequence[Rewrapped]], Awaitable[None]]


@pytest.fixture
async def conn(tenant_owner_conn: Connection, tenant_user: UUID) -> Connection:
    """A tenant's database with five revisions and five open uploads, all wrapped under version 1 of three."""
    await tenant_owner_conn.execute("INSERT INTO kek_versions (version) VALUES (2), (3)")
    sql = """
        INSERT INTO upload_sessions (user_id, filename, mime_type, size_bytes, expires_at, wrapped_key, kek_version)
        VALUES ($1, 'a.pdf', 'application/pdf', 1, now() + interval '1 day', $2, 1)
    """
    for number in range(5):
        await add_document(tenant_owner_conn, tenant_user)
        await tenant_owner_conn.execute(sql, tenant_user, bytes([number]) * 60)
    return tenant_owner_conn


places = pytest.mark.parametrize(
    ("read", "write", "table"),
    [
        (older_object_keys, replace_object_keys, "file_revisions"),
        (older_staging_keys, replace_staging_keys, "upload_sessions"),
    ],
    ids=["objects", "uploads"],
)
_CHANGE = {
    "file_revisions": "UPDATE file_revisions SET wrapped_dek = $2, kek_version = $3 WHERE id = $1",
    "upload_sessions": "UPDATE upload_sessions SET wrapped_key = $2, kek_version = $3 WHERE id = $1",
}


def wrapped_anew(keys: Sequence[WrappedKey], version: int = 2) -> list[Rewrapped]:
    return [Rewrapped(old=key, new=replace(key, wrapped=NEW, kek_version=version)) for key in keys]


@places
async def test_steps_go_over_all_older_keys_once_in_the_order_of_their_rows(
    conn: Connection, read: Read, write: Replace, table: str
) -> None:
    first = await read(conn, 2, after=START, limit=3)
    rest = await read(conn, 2, after=first[-1].id, limit=3)

    ids = [key.id for key in [*first, *rest]]
    assert (len(first), len(rest), ids) == (3, 2, sorted(ids))
    assert await read(conn, 1, after=START, limit=3) == []


@places
async def test_what_was_replaced_is_older_no_more(conn: Connection, read: Read, write: Replace, table: str) -> None:
    await write(conn, wrapped_anew(await read(conn, 2, after=START, limit=3)))

    assert len(await read(conn, 2, after=START, limit=9)) == 2
    assert [key.wrapped for key in await read(conn, 3, after=START, limit=9)].count(NEW) == 3


@places
@pytest.mark.parametrize(
    ("wrapped", "version"), [(OTHER, 1), (OTHER, 3), (None, 3)], ids=["key", "key and version", "version"]
)
async def test_a_row_that_changed_since_it_was_read_keeps_what_it_has(
    conn: Connection, read: Read, write: Replace, table: str, wrapped: bytes | None, version: int
) -> None:
    keys = await read(conn, 2, after=START, limit=9)
    kept = wrapped or keys[2].wrapped
    await conn.execute(_CHANGE[table], keys[2].id, kept, version)

    await write(conn, wrapped_anew(keys))

    now = {key.id: (key.wrapped, key.kek_version) for key in await read(conn, 4, after=START, limit=9)}
    assert now.pop(keys[2].id) == (kept, version)
    assert set(now.values()) == {(NEW, 2)}


async def test_an_upload_that_is_over_gets_no_key_again(conn: Connection) -> None:
    keys = await older_staging_keys(conn, 2, after=START, limit=9)
    await conn.execute("UPDATE upload_sessions SET state = 'aborted', wrapped_key = NULL, kek_version = NULL")

    await replace_staging_keys(conn, wrapped_anew(keys))

    assert await conn.fetchval("SELECT count(*) FROM upload_sessions WHERE wrapped_key IS NOT NULL") == 0
