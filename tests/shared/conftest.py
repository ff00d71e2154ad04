"""Sessions of the tests of what all services share."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection, connect


@pytest.fixture
async def conn(tenant_conn: Connection) -> Connection:
    """A session in the tenant's database, all of whose changes are undone."""
    return tenant_conn


@pytest.fixture
async def two_conns(tenant_dsn: str) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two sessions that commit, for what happens between workers."""
    first = await connect(tenant_dsn, application_name="tests")
    second = await connect(tenant_dsn, application_name="tests")
    yield first, second
    await first.close()
    await second.close()
