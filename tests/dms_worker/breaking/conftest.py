"""Fixtures of the tests that break the queue on purpose."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import connect
from support.ledger import Ledger


@pytest.fixture
async def ledger(tenant_owner_dsn: str) -> AsyncIterator[Ledger]:
    """The books in which the handlers of worker processes write."""
    conn = await connect(tenant_owner_dsn, application_name="tests-ledger")
    ledger = Ledger(conn)
    await ledger.open()
    yield ledger
    await conn.close()
