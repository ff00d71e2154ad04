"""A dms-ingest whose way to core-api a test can close."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from support.ingest import Ingest, ingest_settings, run_ingest
from support.proxy import SwallowingProxy
from support.services import CoreApi


@dataclass(frozen=True, slots=True)
class CoreLine:
    """The way to core-api, open at first."""

    proxy: SwallowingProxy

    async def close(self) -> None:
        """As if core-api were stopped: open connections break, and no new one is taken."""
        await self.proxy.refuse()
        self.proxy.cut()

    async def open(self) -> None:
        """core-api is back."""
        await self.proxy.accept()


@asynccontextmanager
async def run_ingest_over_line(
    core: CoreApi, bus_dsn: str, folder: Path, **changes: object
) -> AsyncIterator[tuple[Ingest, CoreLine]]:
    """Serve dms-ingest in this process, and give the way from it to core-api; `changes` are of its settings."""
    address = urlsplit(core.url)
    proxy = SwallowingProxy(address.hostname or "", address.port or 0)
    await proxy.accept()
    settings = ingest_settings(core, bus_dsn, folder, core_api_url=f"http://127.0.0.1:{proxy.port}", **changes)
    try:
        async with run_ingest(settings) as ingest:
            yield ingest, CoreLine(proxy)
    finally:
        await proxy.close()
