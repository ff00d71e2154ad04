"""A tenant's bucket is made as soon as the tenant is there; the first upload makes it where that was missed."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from nexarch.errors import NexarchError
from nexarch.storage import Storage

log = structlog.get_logger(__name__)


class NewBuckets:
    """Makes the buckets of the tenants that it is told of, one after the other."""

    def __init__(self, storage: Storage, admit: Callable[[str], Awaitable[object]]) -> None:
        """`admit` raises for a tenant that we may not work for now: a suspended or unfinished one."""
        self._storage = storage
        self._admit = admit
        self._told: asyncio.Queue[str] = asyncio.Queue()

    def tell(self, slug: str | None) -> None:
        """Say that something about this tenant has changed; None, that something may have been missed, is no matter."""
        if slug is not None:
            self._told.put_nowait(slug)

    async def run(self) -> None:
        """Make buckets until cancelled."""
        while True:
            slug = await self._told.get()
            try:
                await self._admit(slug)
                await self._storage.ensure_bucket(slug)
            except (NexarchError, OSError) as error:
                log.info("no bucket made for the tenant", tenant=slug, reason=str(error))
