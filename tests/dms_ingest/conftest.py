"""Fixtures for dms-ingest: the service itself, and someone who may use it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.ingest import Ingest, Person, ingest_settings, run_ingest, sign_in
from support.services import CoreApi


@pytest.fixture
async def ingest(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> AsyncIterator[Ingest]:
    """A dms-ingest in this process, beside a real core-api."""
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as running:
        yield running


@pytest.fixture
async def editor(core_api: CoreApi) -> Person:
    """An editor of a new tenant."""
    return await sign_in(core_api)
