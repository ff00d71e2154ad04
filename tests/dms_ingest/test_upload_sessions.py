"""The rows of uploads, whatever the requests did that change them."""

from uuid import UUID

import pytest

from dms_ingest.upload_sessions import (
    LengthFixed,
    NewSession,
    create_session,
    get_session,
    record_received,
    set_length,
)
from nexarch.db import Connection

pytestmark = pytest.mark.database


async def test_a_length_is_said_once_and_is_not_below_what_has_come(tenant_conn: Connection, tenant_user: UUID) -> None:
    new = NewSession(
        filename="a.pdf",
        mime_type="application/pdf",
        size_bytes=100,
        folder_id=None,
        document_id=None,
        sha256=None,
        length_deferred=True,
    )
    session = await create_session(tenant_conn, tenant_user, new, lifetime_s=60, idempotency_key=None)
    await record_received(tenant_conn, session.id, 0, 10, lifetime_s=60)

    with pytest.raises(LengthFixed, match="More bytes"):
        async with tenant_conn.transaction():
            await set_length(tenant_conn, session.id, 9)
    await set_length(tenant_conn, session.id, 20)
    with pytest.raises(LengthFixed, match="known already"):
        await set_length(tenant_conn, session.id, 30)

    assert (await get_session(tenant_conn, tenant_user, session.id)).size_bytes == 20
