"""Fixtures of the tests that break the queue on purpose."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from support.ledger import Ledger


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


@pytest.fixture
async def ledger(tenant_owner_dsn: str) -> AsyncIterator[Ledger]:
    """The books in which the handlers of worker processes write."""
    conn = await connect(tenant_owner_dsn, application_name="tests-ledger")
    ledger = Ledger(conn)
    await ledger.open()
    yield ledger
    await conn.close()
