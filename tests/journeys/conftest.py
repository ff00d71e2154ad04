"""A look into the database of the editor's tenant."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection
from support.ingest import Person, owner_database
from support.services import CoreApi


@pytest.fixture
async def conn(core_api: CoreApi, editor: Person) -> AsyncIterator[Connection]:
    """A session of the database's owner."""
    async with owner_database(core_api, editor) as conn:
        yield conn
