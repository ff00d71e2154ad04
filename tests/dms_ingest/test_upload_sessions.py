"""The rows of uploads, whatever the requests did that change them."""

from dataclasses import replace
from uuid import UUID

import pytest

from dms_ingest.upload_sessions import (
    LengthFixed,
    NewSession,
    create_session,
    forget_received,
    get_session,
    give_parts_to,
    record_received,
    set_length,
)
from nexarch.db import Connection

pytestmark = pytest.mark.database


NEW = NewSession(
    filename="a.pdf", mime_type="application/pdf", size_bytes=100, folder_id=None, document_id=None, sha256=None
)


async def test_a_length_is_said_once_and_is_not_below_what_has_come(tenant_conn: Connection, tenant_user: UUID) -> None:
    deferred = replace(NEW, length_deferred=True)
    session = await create_session(tenant_conn, tenant_user, deferred, lifetime_s=60, idempotency_key=None)
    await record_received(tenant_conn, session.id, 0, 10, lifetime_s=60)

    with pytest.raises(LengthFixed, match="More bytes"):
        async with tenant_conn.transaction():
            await set_length(tenant_conn, session.id, 9)
    await set_length(tenant_conn, session.id, 20)
    with pytest.raises(LengthFixed, match="known already"):
        await set_length(tenant_conn, session.id, 30)

    assert (await get_session(tenant_conn, tenant_user, session.id)).size_bytes == 20


async def test_a_part_stays_whole_once_a_file_has_its_bytes_though_its_own_are_gone(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    parts = [
        await create_session(
            tenant_conn, tenant_user, replace(NEW, concat_kind="partial"), lifetime_s=60, idempotency_key=None
        )
        for _ in range(2)
    ]
    for part in parts:
        await record_received(tenant_conn, part.id, 0, 100, lifetime_s=60)
    used = parts[0].id
    joined = replace(NEW, concat_kind="final", concat_parts=[used])
    final = await create_session(tenant_conn, tenant_user, joined, lifetime_s=60, idempotency_key=None)
    await give_parts_to(tenant_conn, final.id, [used])

    for part in parts:
        await forget_received(tenant_conn, part.id, [(0, 50)])

    missing = [(await get_session(tenant_conn, tenant_user, part.id)).missing() for part in parts]
    assert missing == [[], [(0, 50)]]
