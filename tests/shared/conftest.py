"""A session, and a service on the frame, for the tests of what all services share."""

import pytest
from pytest_aiohttp import AiohttpClient

from nexarch.db import Connection
from support.things import Client, create_app


@pytest.fixture
async def conn(tenant_conn: Connection) -> Connection:
    """A session in the tenant's database, all of whose changes are undone."""
    return tenant_conn


@pytest.fixture
async def client(aiohttp_client: AiohttpClient) -> Client:
    """A client of the small service of `support.things`."""
    return await aiohttp_client(create_app())
