"""A pool for each tenant's database: opened at first use, closed when idle, bounded in number.

Which database a tenant has is core-api's word. It is kept for at most `ttl_s`, and dropped at once when the channel
`tenants` says that something changed (suspended, moved), so a suspended tenant is refused within the moment.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import structlog

from nexarch.core_client import DatabaseAddress
from nexarch.db import Connection, Pool, TypesOnceConnection, session_settings, set_codecs
from nexarch.errors import Unavailable
from nexarch.plain_first import PlainFirst

log = structlog.get_logger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_RETRY_AFTER_S = 5.0


@dataclass(slots=True)
class _Entry:
    address: DatabaseAddress
    pool: Pool
    good_until: float
    users: int = 0
    stale: bool = False


class TenantPools:
    """Tenant slug to pool. `resolve` asks core-api; its errors (unknown, suspended, away) reach the caller.

    `max_connections` is for all tenants together, and soft: to open one more, the idle ones of the tenant that was
    used longest ago are closed; where none is idle, nobody waits. `session` holds further settings of the sessions.
    """

    def __init__(
        self,
        resolve: Callable[[str], Awaitable[DatabaseAddress]],
        *,
        application_name: str,
        max_pools: int = 50,
        max_size: int = 8,
        ttl_s: float = 60.0,
        idle_s: float = 30.0,
        max_connections: int | None = None,
        session: Mapping[str, str] | None = None,
    ) -> None:
        self._resolve = resolve
        self._session = session_settings(application_name) | dict(session or {})
        self._max_connections = max_connections
        self._max_pools = max_pools
        self._max_size = max_size
        self._ttl_s = ttl_s
        self._idle_s = idle_s
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._resolving: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._forgotten = 0  # times

    @asynccontextmanager
    async def acquire(self, slug: str) -> AsyncIterator[Connection]:
        """A connection to the tenant's database, returned to its pool at the end."""
        async with self.pool(slug) as pool, pool.acquire() as conn:
            yield conn

    @asynccontextmanager
    async def pool(self, slug: str) -> AsyncIterator[Pool]:
        """The tenant's pool; it stays open while it is in use, even if it is dropped meanwhile."""
        entry = await self._entry(slug)
        entry.users += 1
        try:
            if self._max_connections is not None and not entry.pool.get_size():
                await self._make_room(self._max_connections - 1)
            yield entry.pool
        finally:
            entry.users -= 1
            self._close_if_done(entry)

    async def tenant_id(self, slug: str) -> UUID:
        """The tenant's id, as core-api gave it with the address."""
        return (await self._entry(slug)).address.tenant_id

    def forget(self, slug: str | None = None) -> None:
        """Ask core-api again at the next use: about one tenant, or about all after a lost connection."""
        self._forgotten += 1
        for name in [slug] if slug is not None else list(self._entries):
            self._discard(name)

    async def close(self) -> None:
        """Close every pool; connections still in use are cut off after a few seconds."""
        self.forget()
        await asyncio.gather(*self._closing)

    async def _entry(self, slug: str) -> _Entry:
        entry = self._entries.get(slug)
        if entry is None or time.monotonic() > entry.good_until:
            # One question to core-api, however many ask at the same time.
            lock = self._resolving.setdefault(slug, asyncio.Lock())
            try:
                async with lock:
                    entry = await self._refreshed(slug)
            finally:
                if not lock.locked():
                    self._resolving.pop(slug, None)
        self._entries.move_to_end(slug)
        return entry

    async def _refreshed(self, slug: str) -> _Entry:
        entry = self._entries.get(slug)
        if entry is not None and time.monotonic() <= entry.good_until:
            return entry
        forgotten = self._forgotten
        try:
            address = await self._resolve(slug)
        except Unavailable:
            if entry is None or slug not in self._entries:
                raise
            # The address is most likely still right; who is suspended meanwhile is refused when core-api is back.
            log.warning("core-api is away: the tenant's last address is used", tenant=slug)
            entry.good_until = time.monotonic() + _RETRY_AFTER_S
            return entry
        except Exception:  # any other answer (suspended, ended, unknown): what is open must not outlive it
            self._discard(slug)
            raise
        if entry is None or entry.address != address or slug not in self._entries:
            pool = await self._open(address)
            self._discard(slug)
            self._entries[slug] = entry = _Entry(address, pool, 0.0)
            self._evict()
        if forgotten == self._forgotten:  # else it changed while core-api answered: this may be the old address
            entry.good_until = time.monotonic() + self._ttl_s
        return entry

    async def _open(self, address: DatabaseAddress) -> Pool:
        return await asyncpg.create_pool(
            host=address.host,
            port=address.port,
            database=address.database,
            user=address.user,
            password=address.password.get_secret_value(),
            min_size=0,
            max_size=self._max_size,
            max_inactive_connection_lifetime=self._idle_s,
            command_timeout=30.0,
            timeout=10.0,
            init=set_codecs,
            connection_class=TypesOnceConnection,
            reset=_leave_as_it_is,
            server_settings=self._session,
            connect=PlainFirst().connect if _is_here(address.host) else None,
        )

    async def _make_room(self, at_most: int) -> None:
        """Close idle tenants' connections, of the longest unused first, until no more than so many are open."""
        connections = sum(entry.pool.get_size() for entry in self._entries.values())
        for entry in list(self._entries.values()):
            if connections <= at_most:
                return
            if entry.users == 0 and (size := entry.pool.get_size()):
                connections -= size
                self._close_soon(entry.pool)
                entry.pool = await self._open(entry.address)  # does not suspend: it connects at its first use

    def _evict(self) -> None:
        """Drop the longest unused pools beyond the bound; the one just made is the last, so it stays."""
        idle = [name for name, entry in list(self._entries.items())[:-1] if entry.users == 0]
        for name in idle[: max(0, len(self._entries) - self._max_pools)]:
            self._drop(self._entries.pop(name))

    def _discard(self, slug: str) -> None:
        if (entry := self._entries.pop(slug, None)) is not None:
            self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        entry.stale = True
        self._close_if_done(entry)

    def _close_if_done(self, entry: _Entry) -> None:
        if entry.stale and entry.users == 0:
            entry.stale = False  # closed once
            self._close_soon(entry.pool)

    def _close_soon(self, pool: Pool) -> None:
        task = asyncio.create_task(_close(pool))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _is_here(host: str) -> bool:
    """Whether this address is of this machine: of its loopback, or of a Unix socket."""
    return host in {"localhost", "127.0.0.1", "::1"} or host.startswith("/")


async def _leave_as_it_is(_conn: Connection) -> None:
    """Nothing to reset in a session that comes back, which would cost a round trip each time.

    The driver has rolled back what was open. Nobody sets anything for longer than a transaction, or listens.
    """


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await pool.close()
    except TimeoutError:
        pool.terminate()
