"""Tenants' connections to a Postgres on this machine that takes TLS only, or that does not ask for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from nexarch.core_client import DatabaseAddress
from nexarch.tenancy import TenantPools
from support.database import TenantDatabase
from support.tls_door import tls_door

pytestmark = pytest.mark.database


@asynccontextmanager
async def tenant_pools(
    database: TenantDatabase, *, port: int | None = None, password: str | None = None
) -> AsyncIterator[TenantPools]:
    parts = urlsplit(database.dsn)
    address = DatabaseAddress(
        tenant_id=uuid4(),
        slug="acme",
        host="127.0.0.1",
        port=port or parts.port or 0,
        database=parts.path.strip("/"),
        user=unquote(parts.username or ""),
        password=SecretStr(password or unquote(parts.password or "")),
    )

    async def resolve(_slug: str) -> DatabaseAddress:
        return address

    pools = TenantPools(resolve, application_name="tests")
    yield pools
    await pools.close()


async def test_a_database_here_that_takes_tls_only_is_reached_by_tls(
    tenant_database: TenantDatabase, tmp_path: Path
) -> None:
    async with (
        tls_door(urlsplit(tenant_database.dsn).port or 0, tmp_path) as door,
        tenant_pools(tenant_database, port=door.port) as pools,
    ):
        with capture_logs() as lines:
            async with pools.acquire("acme") as first, pools.acquire("acme") as second:
                answers = [await conn.fetchval("SELECT 42") for conn in (first, second)]

    assert answers == [42, 42]
    assert (door.refused, door.admitted) == (1, 2)  # in the clear it is asked once, not for each connection
    assert "no encryption" in lines[0]["reason"]


async def test_a_database_here_is_not_asked_for_tls(tenant_database: TenantDatabase) -> None:
    async with tenant_pools(tenant_database) as pools:
        with capture_logs() as lines:
            async with pools.acquire("acme") as conn:
                assert await conn.fetchval("SELECT 42") == 42

    assert lines == []


async def test_a_wrong_password_is_not_tried_again(tenant_database: TenantDatabase) -> None:
    async with tenant_pools(tenant_database, password="wrong") as pools:
        with capture_logs() as lines, pytest.raises(asyncpg.InvalidPasswordError):
            async with pools.acquire("acme"):
                pass

    assert lines == []
