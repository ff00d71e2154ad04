"""Who adds jobs and rings, in the tests of the worker."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell


@pytest.fixture
async def conn(tenant_dsn: str) -> AsyncIterator[Connection]:
    """A producer's session in the tenant's database."""
    conn = await connect(tenant_dsn, application_name="tests")
    yield conn
    await conn.close()


@pytest.fixture
async def bell(bus_dsn: str) -> AsyncIterator[Doorbell]:
    """The producer's doorbell."""
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        yield bell
