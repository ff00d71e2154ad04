"""Tenants' pools stay few and their sessions cheap."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr

from nexarch.core_client import DatabaseAddress
from nexarch.db import DATABASE_ERRORS, connect
from nexarch.tenancy import TenantPools
from support import database
from support.database import Cluster
from support.waiting import eventually

pytestmark = pytest.mark.database

NAME = "tests-few"


@pytest.fixture
async def dsns(cluster: Cluster) -> AsyncIterator[dict[str, str]]:
    """Three tenants' addresses by slug."""
    async with AsyncExitStack() as stack:
        yield {
            slug: (await stack.enter_async_context(database.own_tenant(cluster))).dsn
            for slug in ("acme", "bolt", "cask")
        }


@pytest.fixture
async def pools(dsns: dict[str, str]) -> AsyncIterator[TenantPools]:
    """Pools that keep two connections at most."""

    async def resolve(slug: str) -> DatabaseAddress:
        place = urlsplit(dsns[slug])
        return DatabaseAddress(
            tenant_id=UUID(int=0), slug=slug, host=place.hostname or "", port=place.port or 0,
            database=place.path[1:], user=place.username or "", password=SecretStr(place.password or ""),
        )  # fmt: skip

    pools = TenantPools(resolve, application_name=NAME, max_connections=2, session={"work_mem": "5MB"})
    yield pools
    await pools.close()


async def test_the_longest_idle_tenant_gives_up_its_connections_for_another(
    pools: TenantPools, cluster: Cluster, dsns: dict[str, str]
) -> None:
    for slug in ("acme", "bolt", "acme", "cask"):
        async with pools.acquire(slug) as conn:
            await conn.execute("SELECT 1")

    watching = await connect(cluster.superuser_dsn, application_name="tests")
    try:

        async def only_the_last_two() -> bool:
            sql = "SELECT datname FROM pg_stat_activity WHERE application_name = $1"
            open_to = {row["datname"] for row in await watching.fetch(sql, NAME)}
            return open_to == {urlsplit(dsns[slug]).path[1:] for slug in ("acme", "cask")}

        await eventually(only_the_last_two)
    finally:
        await watching.close()


async def test_connections_in_use_are_never_closed_for_another(pools: TenantPools) -> None:
    async with pools.acquire("acme") as first, pools.acquire("bolt") as second, pools.acquire("cask") as third:
        values = [await conn.fetchval("SELECT 1") for conn in (first, second, third)]

    assert values == [1, 1, 1]


async def test_every_session_has_the_settings_and_reads_arrays_though_only_the_first_asks_what_they_are(
    pools: TenantPools,
) -> None:
    ids = [uuid4(), uuid4()]

    for slug in ("acme", "bolt"):
        async with pools.acquire(slug) as conn:
            assert await conn.fetchval("SELECT $1::uuid[]", ids) == ids
            assert await conn.fetchval("SHOW work_mem") == "5MB"


@pytest.mark.parametrize(("host", "first_asks_for"), [("127.0.0.2", "TLS"), ("127.0.0.1", "the database")])
async def test_a_database_is_asked_for_tls_unless_it_is_on_this_machine(host: str, first_asks_for: str) -> None:
    asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def take_first_message(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.put_nowait(await reader.readexactly(8))
        writer.close()

    async def resolve(slug: str) -> DatabaseAddress:
        return DatabaseAddress(
            tenant_id=UUID(int=0), slug=slug, host=host, port=port, database="d", user="u", password=SecretStr("p")
        )

    async with await asyncio.start_server(take_first_message, host, 0) as server:
        port = server.sockets[0].getsockname()[1]
        pools = TenantPools(resolve, application_name=NAME)
        with pytest.raises(DATABASE_ERRORS):
            async with pools.acquire("acme"):
                pass
        await pools.close()

    # The code of the first message: SSLRequest, or version 3.0 of the protocol.
    codes = {80877103: "TLS", 3 << 16: "the database"}
    assert codes[int.from_bytes(asked.get_nowait()[4:])] == first_asks_for
