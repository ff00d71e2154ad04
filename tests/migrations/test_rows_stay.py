"""Migrations of databases that are in use: what a person stored is the same after a step back and forth."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from dms_ingest.documents import delete_document
from dms_ingest.staging_keys import WrappedKey, claim_key
from dms_ingest.upload_sessions import NewSession, Session, close_session, create_session, record_received
from nexarch.db import Connection, connect
from nexarch.migrate import migrate_down, migrate_up, read_migrations
from nexarch.seed import seed
from support.database import Cluster, add_user, empty_database
from support.documents import add_document, next_revision

pytestmark = pytest.mark.database

KEPT_SINCE = 9  # what the releases before this version had is kept by every step down to it

STORED = """
    SELECT d.name, d.deleted_at, d.current_revision_id, r.id, r.number, r.storage_key, r.checksum_sha256, r.size_bytes,
        r.wrapped_dek, r.kek_version, t.content,
        (SELECT array_agg(v ORDER BY field_id) FROM document_metadata_values AS v WHERE v.document_id = d.id) AS values
    FROM documents AS d
    LEFT JOIN file_revisions AS r ON r.document_id = d.id
    LEFT JOIN document_texts AS t ON t.revision_id = r.id
    ORDER BY d.id, r.number
"""
JOBS = "SELECT id, job_type, payload, status, attempts FROM processing_jobs ORDER BY id"


@dataclass(frozen=True, slots=True)
class InUse:
    """A tenant's database with a little of everything in it."""

    conn: Connection
    uploads: dict[str, UUID]


@pytest.fixture
async def in_use(cluster: Cluster) -> AsyncIterator[InUse]:
    async with empty_database(cluster) as dsn:
        conn = await connect(dsn, application_name="tests")
        await migrate_up(conn, read_migrations("tenant"))
        user_id = await add_user(dsn, "e@example.org", "editor")
        await seed(conn)
        document_id = await add_document(conn, user_id, text="Kündigung")
        await next_revision(conn, document_id, user_id)
        await delete_document(conn, await add_document(conn, user_id, name="weg.pdf"), if_versions=None)
        yield InUse(conn, await uploads_of_every_kind(conn, user_id, document_id))
        await conn.close()


async def uploads_of_every_kind(conn: Connection, user_id: UUID, document_id: UUID) -> dict[str, UUID]:
    plain = await begun(conn, user_id)
    deferred = await begun(conn, user_id, length_deferred=True, tus_metadata="filename YQ==")
    part = await begun(conn, user_id, concat_kind="partial")
    final = await begun(conn, user_id, concat_kind="final", concat_parts=[part.id])
    complete = await begun(conn, user_id)
    await record_received(conn, complete.id, 5, 10, lifetime_s=3600)
    revision_id = await conn.fetchval("SELECT current_revision_id FROM documents WHERE id = $1", document_id)
    assert await close_session(conn, complete.id, document_id, revision_id)
    return {
        "plain": plain.id, "deferred": deferred.id, "part": part.id, "final": final.id, "complete": complete.id,
    }  # fmt: skip


async def begun(
    conn: Connection,
    user_id: UUID,
    *,
    length_deferred: bool = False,
    tus_metadata: str | None = None,
    concat_kind: str | None = None,
    concat_parts: list[UUID] | None = None,
) -> Session:
    new = NewSession(
        filename="a.pdf",
        mime_type="application/pdf",
        size_bytes=10,
        folder_id=None,
        document_id=None,
        sha256=None,
        length_deferred=length_deferred,
        tus_metadata=tus_metadata,
        concat_kind=concat_kind,
        concat_parts=concat_parts,
    )
    key = None if concat_kind is None else concat_kind
    session = await create_session(conn, user_id, new, lifetime_s=3600, idempotency_key=key)
    await claim_key(conn, session.id, WrappedKey(wrapped_key=bytes(60), kek_version=1))
    return await record_received(conn, session.id, 0, 5, lifetime_s=3600)


async def states(in_use: InUse) -> dict[str, str | None]:
    rows = await in_use.conn.fetch("SELECT id, state FROM upload_sessions")
    by_id = {row["id"]: row["state"] for row in rows}
    return {kind: by_id.get(id_) for kind, id_ in in_use.uploads.items()}


async def test_documents_revisions_texts_values_and_jobs_stay_through_every_step_back_and_forth(in_use: InUse) -> None:
    migrations = read_migrations("tenant")
    stored, jobs = await in_use.conn.fetch(STORED), await in_use.conn.fetch(JOBS)

    for version in reversed(range(KEPT_SINCE - 1, len(migrations))):
        await migrate_down(in_use.conn, migrations, to=version)
        assert await in_use.conn.fetch(STORED) == stored, version
        await migrate_up(in_use.conn, migrations)

        assert await in_use.conn.fetch(STORED) == stored, version
        assert await in_use.conn.fetch(JOBS) == jobs, version
        assert await in_use.conn.fetchval(
            "SELECT used_bytes = (SELECT sum(size_bytes) FROM stored_objects) FROM storage_usage"
        ), version


async def test_uploads_that_the_release_before_could_not_go_on_with_are_ended_and_free_their_keys(
    in_use: InUse,
) -> None:
    migrations = read_migrations("tenant")

    await migrate_down(in_use.conn, migrations, to=10)
    without_tus = await states(in_use)
    await migrate_down(in_use.conn, migrations, to=9)
    without_keys = await states(in_use)
    await migrate_up(in_use.conn, migrations)

    assert without_tus == {
        "plain": "open", "deferred": None, "part": None, "final": "open", "complete": "complete",
    }  # fmt: skip
    assert without_keys == {
        "plain": "aborted", "deferred": None, "part": None, "final": "aborted", "complete": "complete",
    }  # fmt: skip
    assert await in_use.conn.fetchval("SELECT count(idempotency_key) + count(wrapped_key) FROM upload_sessions") == 0
