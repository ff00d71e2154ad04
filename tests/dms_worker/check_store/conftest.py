"""An admin whose tenant's object store is checked."""

from collections.abc import AsyncIterator

import pytest

from nexarch.db import Connection
from nexarch.storage.local import LocalStorage
from support.ingest import Ingest, Person, sign_in
from support.services import CoreApi, owner_database


@pytest.fixture
async def admin(core_api: CoreApi) -> Person:
    """An admin of a tenant of the test's own."""
    return await sign_in(core_api, role="admin")


@pytest.fixture
async def storage(ingest: Ingest) -> AsyncIterator[LocalStorage]:
    """The store that dms-ingest writes into."""
    assert ingest.settings.storage_dir is not None
    store = LocalStorage(ingest.settings.storage_dir)
    yield store
    store.close()


@pytest.fixture
async def conn(core_api: CoreApi, admin: Person) -> AsyncIterator[Connection]:
    """A session of the owner of the tenant's database."""
    async with owner_database(core_api, admin.tenant) as conn:
        yield conn
