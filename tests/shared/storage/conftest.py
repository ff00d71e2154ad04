"""An S3 store, for the tests of what only that driver has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nexarch.storage.s3 import S3Storage
from support.objects import TENANT
from support.s3 import opened, s3_variables
from support.seaweedfs import S3Server


@pytest.fixture
def settings(s3_server: S3Server) -> dict[str, Any]:
    """What leads to a bucket of this test's own."""
    return s3_variables(s3_server)


@pytest.fixture
async def storage(settings: dict[str, Any]) -> AsyncIterator[S3Storage]:
    """The store in that bucket."""
    async with opened(settings) as store:
        await store.ensure_bucket(TENANT)
        yield store
