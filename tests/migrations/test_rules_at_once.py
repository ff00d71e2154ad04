"""Rules over several rows hold when two sessions break them together, each of which alone would be fine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from nexarch.db import Connection, connect
from support.waiting import eventually

pytestmark = pytest.mark.database


@asynccontextmanager
async def two_sessions(dsn: str) -> AsyncIterator[tuple[Connection, Connection]]:
    conns = [await connect(dsn, application_name="tests") for _ in range(2)]
    try:
        yield conns[0], conns[1]
    finally:
        for conn in conns:
            await conn.close()


async def second_is_refused(first: Connection, second: Connection, statements: tuple[str, str]) -> str | None:
    """Run the second statement while the first is done but not committed; name what refused it after the commit."""
    pid = await second.fetchval("SELECT pg_backend_pid()")
    async with first.transaction():
        await first.execute(statements[0])
        waiting = asyncio.ensure_future(run(second.execute(statements[1])))

        async def second_waits_or_is_done() -> bool:
            blocked = await first.fetchval("SELECT pg_blocking_pids($1) <> '{}'", pid)
            return waiting.done() or bool(blocked)

        await eventually(second_waits_or_is_done)
    return await waiting


async def run(statement: Awaitable[object]) -> str | None:
    try:
        await statement
    except asyncpg.IntegrityConstraintViolationError as error:
        return str(error.constraint_name)
    return None


async def test_two_moves_cannot_make_a_ring_of_folders(tenant_dsn: str) -> None:
    move = "UPDATE folders SET parent_id = (SELECT id FROM folders WHERE name = '{}') WHERE name = '{}'"
    async with two_sessions(tenant_dsn) as (first, second):
        await first.execute("INSERT INTO folders (name) VALUES ('a'), ('b')")

        refused = await second_is_refused(first, second, (move.format("a", "b"), move.format("b", "a")))

    assert refused == "folders_no_cycle"


async def test_two_folders_of_one_name_cannot_be_made_at_the_top(tenant_dsn: str) -> None:
    add = "INSERT INTO folders (name) VALUES ('a')"
    async with two_sessions(tenant_dsn) as (first, second):
        refused = await second_is_refused(first, second, (add, add))

    assert refused == "folders_name_in_parent"


async def test_two_revisions_of_one_number_cannot_be_made(tenant_dsn: str) -> None:
    add = """
        INSERT INTO file_revisions
               (id, document_id, number, storage_key, checksum_sha256, size_bytes, mime_type, wrapped_dek, kek_version)
        SELECT revision, id, 1, 'documents/' || id || '/revisions/' || revision, sha256(''), 0, 'text/plain',
               decode(repeat('00', 60), 'hex'), 1
          FROM documents, uuidv7() AS revision
    """
    async with two_sessions(tenant_dsn) as (first, second):
        await first.execute("INSERT INTO documents (name) VALUES ('a')")

        refused = await second_is_refused(first, second, (add, add))

    assert refused == "file_revisions_number_key"


async def test_two_provisioners_cannot_make_a_third_live_credential(registry_dsn: str) -> None:
    add = "INSERT INTO module_credentials (module_id, client_id, secret_sha256) VALUES ('m', '{}', sha256('x'))"
    async with two_sessions(registry_dsn) as (first, second):
        await first.execute("INSERT INTO modules (id, version) VALUES ('m', '1')")
        await first.execute(add.format("one"))

        refused = await second_is_refused(first, second, (add.format("two"), add.format("three")))

    assert refused == "module_credentials_two_live"


async def test_two_modules_whose_metrics_would_mix_cannot_be_registered(registry_dsn: str) -> None:
    add = "INSERT INTO modules (id, version) VALUES ('{}', '1')"
    async with two_sessions(registry_dsn) as (first, second):
        refused = await second_is_refused(first, second, (add.format("a"), add.format("a_b")))

    assert refused == "modules_no_prefix"
