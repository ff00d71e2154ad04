"""Jobs that come round by themselves, in every tenant at a time of its own."""

import time
import zlib
from collections.abc import Mapping

from nexarch import jobs
from nexarch.db import Connection


class Periods:
    """Asks a tenant's database when its next period begins, and not again before that."""

    def __init__(self, every_s: Mapping[str, float]) -> None:
        self._every_s = dict(every_s)
        self._next_at: dict[str, float] = {}  # tenant to a time by time.monotonic()

    async def begin(self, tenant: str, conn: Connection) -> float | None:
        """Make the jobs whose period has begun; the seconds until the next begins, or None if there is no such job."""
        if not self._every_s:
            return None
        now = time.monotonic()
        if self._next_at.get(tenant, now) <= now:
            # By the slug, so that all workers agree and a thousand tenants are spread evenly.
            phase = zlib.crc32(tenant.encode()) / 2**32
            self._next_at[tenant] = now + await jobs.begin_periods(conn, self._every_s, phase)
        return self._next_at[tenant] - now
