"""Sessions of the tests of what all services share."""

import pytest

from nexarch.db import Connection


@pytest.fixture
async def conn(tenant_conn: Connection) -> Connection:
    """A session in the tenant's database, all of whose changes are undone."""
    return tenant_conn
