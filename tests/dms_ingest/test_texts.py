from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import DocumentNotFound, delete_document
from dms_ingest.texts import TextNotThere, processed_revision, text_part
from nexarch.db import Connection
from support.documents import add_document, next_revision

pytestmark = pytest.mark.database


async def test_the_parts_joined_are_the_text(tenant_conn: Connection, tenant_user: UUID) -> None:
    text = "".join(f"Zeile {number} über Straßen.\n" for number in range(5_000))
    document_id = await add_document(tenant_conn, tenant_user, text=text)

    revision_id = await processed_revision(tenant_conn, document_id)
    parts = [await text_part(tenant_conn, revision_id, number) for number in range(8)]

    assert parts[1] is not None
    assert "".join(part for part in parts if part is not None) == text


async def test_there_is_no_text_before_the_current_revision_is_processed(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user, text="the first revision's")
    await next_revision(tenant_conn, document_id, tenant_user)

    with pytest.raises(TextNotThere) as refused:
        await processed_revision(tenant_conn, document_id)

    assert refused.value.members == {"processing_state": "queued"}


async def test_a_deleted_or_unknown_document_has_no_text(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user, text="gone")
    await delete_document(tenant_conn, document_id, if_versions=None)

    for each in (document_id, uuid4()):
        with pytest.raises(DocumentNotFound):
            await processed_revision(tenant_conn, each)
