"""Pools on tenants' databases: bounded, asked for again when core-api says so, and good while it is away."""

from collections.abc import AsyncIterator, Callable
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pytest
from pydantic import SecretStr

from nexarch.core_client import DatabaseAddress
from nexarch.db import Connection
from nexarch.errors import Forbidden, Unavailable
from nexarch.tenancy import TenantPools
from support.database import TenantDatabase
from support.waiting import eventually

pytestmark = pytest.mark.database


class Suspended(Forbidden):
    code = "suspended"


class Away(Unavailable):
    code = "away"


class Directory:
    """Says where tenants are: all of them in one database here. `error` is what it raises instead."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.meanwhile: Callable[[], None] | None = None  # called once, while an answer is on its way
        self._address = DatabaseAddress(
            tenant_id=uuid4(),
            slug="any",
            host=parts.hostname or "",
            port=parts.port or 0,
            database=parts.path.strip("/"),
            user=unquote(parts.username or ""),
            password=SecretStr(unquote(parts.password or "")),
        )

    async def resolve(self, slug: str) -> DatabaseAddress:
        self.asked.append(slug)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        if self.error is not None:
            raise self.error
        return self._address


@pytest.fixture
def directory(tenant_database: TenantDatabase) -> Directory:
    return Directory(tenant_database.dsn)


@pytest.fixture
async def open_pools(directory: Directory) -> AsyncIterator[Callable[..., TenantPools]]:
    opened: list[TenantPools] = []

    def open_pools(**options: float) -> TenantPools:
        opened.append(TenantPools(directory.resolve, application_name="pools under test", **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_pools
    for pools in opened:
        await pools.close()


async def use(pools: TenantPools, *slugs: str) -> None:
    """Take a connection of each and give it back."""
    for slug in slugs:
        async with pools.acquire(slug):
            pass


async def connections(conn: Connection) -> int:
    # Within a transaction Postgres shows sessions as they were at the first look, which may be too early for ever.
    await conn.execute("SELECT pg_stat_clear_snapshot()")
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pools under test'"
    return int(await conn.fetchval(sql))


async def test_beyond_the_bound_the_longest_unused_pool_is_closed(
    open_pools: Callable[..., TenantPools], directory: Directory, tenant_conn: Connection
) -> None:
    pools = open_pools(max_pools=3)

    for slug in ["a", "b", "c", "a", "d", "e"]:
        async with pools.acquire(slug) as conn:
            await conn.execute("SELECT 1")

    async def only_three() -> bool:
        return await connections(tenant_conn) == 3

    await eventually(only_three)
    await use(pools, "a", "b")
    assert directory.asked == ["a", "b", "c", "d", "e", "b"]


async def test_a_pool_in_use_is_not_closed_under_its_user(open_pools: Callable[..., TenantPools]) -> None:
    pools = open_pools(max_pools=1)

    async with pools.acquire("a") as conn:
        for slug in ["b", "c"]:
            async with pools.acquire(slug) as other:
                await other.execute("SELECT 1")
        pools.forget("a")

        assert await conn.fetchval("SELECT 42") == 42


async def test_who_is_refused_has_no_pool_any_more(
    open_pools: Callable[..., TenantPools], directory: Directory, tenant_conn: Connection
) -> None:
    pools = open_pools(ttl_s=0.0)
    async with pools.acquire("a") as conn:
        await conn.execute("SELECT 1")
    directory.error = Suspended("The tenant is suspended.")

    with pytest.raises(Suspended):
        await use(pools, "a")

    async def none() -> bool:
        return await connections(tenant_conn) == 0

    await eventually(none)


async def test_while_core_api_is_away_the_last_address_is_used_and_a_stranger_is_refused(
    open_pools: Callable[..., TenantPools], directory: Directory
) -> None:
    pools = open_pools(ttl_s=0.0)
    await use(pools, "a")
    directory.error = Away("core-api does not answer.")

    async with pools.acquire("a") as conn:
        assert await conn.fetchval("SELECT 42") == 42
    with pytest.raises(Away):
        await use(pools, "b")


async def test_what_is_forgotten_is_asked_for_again(
    open_pools: Callable[..., TenantPools], directory: Directory
) -> None:
    pools = open_pools()
    for forgotten in ["a", None]:
        await use(pools, "a", "b")
        pools.forget(forgotten)
    await use(pools, "a", "b")

    assert directory.asked == ["a", "b", "a", "a", "b"]


@pytest.mark.parametrize("forgotten", ["a", None])
async def test_what_is_forgotten_while_it_is_asked_for_is_asked_for_again(
    open_pools: Callable[..., TenantPools], directory: Directory, forgotten: str | None
) -> None:
    pools = open_pools()
    directory.meanwhile = lambda: pools.forget(forgotten)

    for _ in range(3):
        await use(pools, "a")

    assert directory.asked == ["a", "a"]


async def test_what_is_forgotten_and_cannot_be_asked_for_is_not_used_any_more(
    open_pools: Callable[..., TenantPools], directory: Directory
) -> None:
    pools = open_pools(ttl_s=0.0)
    await use(pools, "a")
    directory.error = Away("core-api does not answer.")
    directory.meanwhile = lambda: pools.forget("a")

    with pytest.raises(Away):
        await use(pools, "a")
