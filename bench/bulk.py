"""How fast 1,000 documents are changed in one call, next to the bare statements in the same run.

    python bench/bulk.py [DOCUMENTS]

Each document gets a value in each of five fields, a tag, and a folder: 7,000 cells. One JSON object:
`{"bench": "bulk", "case": "change_1000", "documents", "ours_ms", "floor_ms", "ratio", "met"}`. `ours_ms` is a POST over
HTTP with everything checked; the floor sends the same rows in three statements and one transaction to the same database
and checks nothing. Both are the best of five rounds, taken in turn. `met`: under two seconds.
"""

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`
sys.path.append(str(Path(__file__).parents[1] / "tests"))  # whose support starts a server and the services

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import structlog

from dms_ingest.folders import create_folder
from dms_ingest.metadata import create_field
from dms_ingest.tags import create_tag
from nexarch.db import Connection
from support import database
from support.ingest import Ingest, Person, ingest_settings, run_ingest, sign_in, tenant_database
from support.services import cheap_passwords, run_core_api

ROUNDS = 5
MOST_MS = 2000
TYPES = ("text", "number", "date", "bool", "select")
VALUES = ("Rechnung", 1234.5, "2024-12-31", True, "offen")


@asynccontextmanager
async def platform(folder: Path) -> AsyncIterator[tuple[Ingest, Person, Connection]]:
    """A dms-ingest with all below it, an editor of a tenant, and a connection to the tenant's database."""
    server = database.start_server(folder)
    try:
        async with AsyncExitStack() as stack:
            cluster = await database.prepare_cluster(server.dsn())
            registry = await stack.enter_async_context(database.own_registry(cluster))
            core_dsn, bus_dsn = (
                database.registry_core_dsn(cluster, registry),
                database.registry_bus_dsn(cluster, registry),
            )
            core = await stack.enter_async_context(
                run_core_api(core_dsn, folder / "secrets", cluster, cheap_passwords())
            )
            ingest = await stack.enter_async_context(run_ingest(ingest_settings(core, bus_dsn, folder)))
            editor = await sign_in(core)
            conn = await stack.enter_async_context(tenant_database(core, editor))
            yield ingest, editor, conn
    finally:
        server.stop("immediate")


async def bare(conn: Connection, documents: list[UUID], fields: list[UUID], tag: UUID, folder: UUID) -> None:
    """The rows of the same change, written without a look at them."""
    async with conn.transaction():
        await conn.execute("UPDATE documents SET folder_id = $2 WHERE id = ANY($1)", documents, folder)
        await conn.execute(
            """
            INSERT INTO document_metadata_values (document_id, field_id, field_type, value_text, value_number,
                value_date, value_bool, value_select)
            SELECT d, f, type, CASE type WHEN 'text' THEN 'Rechnung' END, CASE type WHEN 'number' THEN 1234.5 END,
                CASE type WHEN 'date' THEN date '2024-12-31' END, CASE type WHEN 'bool' THEN true END,
                CASE type WHEN 'select' THEN 'offen' END
            FROM unnest($1::uuid[]) AS d, unnest($2::uuid[], $3::text[]) AS field (f, type)
            """,
            documents,
            fields,
            TYPES,
        )
        await conn.execute(
            "INSERT INTO document_tags (document_id, tag_id) SELECT d, $2 FROM unnest($1::uuid[]) AS d", documents, tag
        )


async def undo(conn: Connection) -> None:
    """Every round begins with the same documents."""
    await conn.execute("DELETE FROM document_metadata_values")
    await conn.execute("DELETE FROM document_tags")
    await conn.execute("UPDATE documents SET folder_id = NULL")


async def measure(count: int) -> dict[str, object]:
    """Run both, in turn."""
    with tempfile.TemporaryDirectory(prefix="nexarch-bench-") as home:
        async with platform(Path(home)) as (ingest, editor, conn):
            sql = "INSERT INTO documents (name) SELECT 'Beleg ' || n FROM generate_series(1, $1::int) AS n RETURNING id"
            documents: list[UUID] = [row["id"] for row in await conn.fetch(sql, count)]
            user_id: UUID = await conn.fetchval("SELECT id FROM users LIMIT 1")
            folder = (await create_folder(conn, name="Belege", parent_id=None, user_id=user_id)).id
            tag = (await create_tag(conn, "wichtig")).id
            fields = [
                (await create_field(conn, name=of, type_=of, options=["offen"] if of == "select" else [])).id
                for of in TYPES
            ]
            change = {
                "folder_id": str(folder),
                "values": {str(of): value for of, value in zip(fields, VALUES, strict=True)},
                "assign_tags": [str(tag)],
            }
            body = {"items": [{"document_id": str(document)} | change for document in documents]}
            ours, floor = [], []
            for _ in range(ROUNDS):
                await undo(conn)
                begin = time.perf_counter()
                await bare(conn, documents, fields, tag, folder)
                floor.append(time.perf_counter() - begin)
                await undo(conn)
                begin = time.perf_counter()
                status, answer = await ingest.call(editor, "POST", "/v1/documents/bulk", json=body)
                ours.append(time.perf_counter() - begin)
                assert (status, answer) == (200, {"changed": count}), answer
    ours_ms, floor_ms = round(min(ours) * 1000, 1), round(min(floor) * 1000, 1)
    return {
        "bench": "bulk",
        "case": "change_1000",
        "documents": count,
        "ours_ms": ours_ms,
        "floor_ms": floor_ms,
        "ratio": round(floor_ms / ours_ms, 2),
        "met": max(ours) * 1000 < MOST_MS,
    }


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))))
