"""A look into the database of the editor's tenant."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection
from support.ingest import Person
from support.services import CoreApi, owner_database


@pytest.fixture
async def conn(core_api: CoreApi, editor: Person) -> AsyncIterator[Connection]:
    """A session of the database's owner."""
    async with owner_database(core_api, editor.tenant) as conn:
        yield conn
