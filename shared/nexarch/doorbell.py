"""Ringing: telling the workers that a tenant has new jobs, once the jobs are committed.

The bell is a NOTIFY on the registry database, in a statement of its own. Inside the producer's transaction it
would take a lock that makes the commits of the whole server wait for each other. A ring may be lost; the jobs are
then found by the sweep, which knows where to look because the tenant was armed.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import structlog

from nexarch import channels
from nexarch.db import DATABASE_ERRORS, Connection, connect
from nexarch.listen import backoff_s

_INTERVAL_S = 0.010
_ARMED_S = 60.0
_ANSWER_TIMEOUT_S = 2.0
_ARM_PAUSE_S = 5.0  # after a failure: a producer must not wait for a dead bus at each of its commits

log = structlog.get_logger(__name__)


class Doorbell:
    """The bell of one process, on a bus connection of its own that comes back by itself.

    None of `ring`, `arm` and `tell` ever raises because of the bus. The figures `sent`, `coalesced`, `failed` and
    `arm_failed` count since the start.
    """

    def __init__(self, bus_dsn: str, *, application_name: str, interval_s: float = _INTERVAL_S) -> None:
        self._dsn = bus_dsn
        self._application_name = application_name
        self._interval_s = interval_s
        self._due: dict[str, float] = {}  # tenant to the time from which it may be rung
        self._rung: dict[str, float] = {}  # tenant to the time of its last ring, while that matters
        self._work = asyncio.Event()
        self._conn: Connection | None = None
        self._conn_lock = asyncio.Lock()  # asyncpg runs one statement at a time on a connection
        self._armed_until: dict[str, float] = {}
        self._arming: dict[str, asyncio.Task[None]] = {}
        self._arm_again_at = 0.0
        self._sender: asyncio.Task[None] | None = None
        self.sent = 0
        self.coalesced = 0
        self.failed = 0
        self.arm_failed = 0

    async def __aenter__(self) -> Self:
        self._sender = asyncio.create_task(self._send_due(), name="doorbell")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is still due, if the bus answers, and hang up."""
        tasks = [task for task in (self._sender, *self._arming.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._due:
            await self._send(list(self._due))
        self._hang_up()

    def ring(self, tenant: str) -> None:
        """Say that the tenant has jobs. Call it after the commit; it returns at once.

        The first ring leaves immediately, further ones for the same tenant at most every 10 ms; one that is
        waiting stands for all that come meanwhile.
        """
        if tenant in self._due:
            self.coalesced += 1
            return
        self._due[tenant] = self._rung.get(tenant, 0.0) + self._interval_s
        self._work.set()

    async def arm(self, tenant: str) -> None:
        """Mark the tenant as active, so that the sweep looks at it each minute for the next ten.

        Await it before the transaction that holds the job: what is committed unarmed and never rung waits for the
        hourly sweep. At most one statement a minute and tenant, so nearly every call returns at once.
        """
        now = time.monotonic()
        if self._armed_until.get(tenant, 0.0) > now or self._arm_again_at > now:
            return
        if tenant not in self._arming:
            task = asyncio.create_task(self._arm(tenant), name=f"arm {tenant}")
            self._arming[tenant] = task
            task.add_done_callback(lambda _task: self._arming.pop(tenant, None))
        # Shielded: the first caller may be cancelled while others wait for the same statement.
        await asyncio.shield(self._arming[tenant])

    async def tell(self, channel: str, payload: str) -> None:
        """Notify another channel, once; what cannot be sent is lost."""
        try:
            await self._execute("SELECT pg_notify($1, $2)", channel, payload)
        except DATABASE_ERRORS as error:
            log.warning("not told", channel=channel, reason=f"{type(error).__name__}: {error}")

    async def _arm(self, tenant: str) -> None:
        asked_at = time.monotonic()
        try:
            await self._execute("SELECT arm_tenant($1)", tenant)
        except DATABASE_ERRORS as error:
            self.arm_failed += 1
            self._arm_again_at = time.monotonic() + _ARM_PAUSE_S
            log.warning("tenant not armed", tenant=tenant, reason=f"{type(error).__name__}: {error}")
        else:
            self._armed_until[tenant] = asked_at + _ARMED_S

    async def _send_due(self) -> None:
        """Send rings as they come due, until cancelled; keeps what could not be sent and tries again."""
        failures = 0
        while True:
            await self._work.wait()
            now = time.monotonic()
            ready = [tenant for tenant, at in self._due.items() if at <= now]
            if not ready:
                await self._sleep_until_due(now)
                continue
            if await self._send(ready):
                failures = 0
            else:
                failures += 1
                await asyncio.sleep(backoff_s(failures, 0.02, 5.0))

    async def _sleep_until_due(self, now: float) -> None:
        """Wait for the next ring that is due, or for a new one that may be due earlier."""
        self._work.clear()
        # What was rung longer ago than the interval no longer delays a ring.
        self._rung = {tenant: at for tenant, at in self._rung.items() if at + self._interval_s > now}
        if self._due:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._work.wait(), min(self._due.values()) - now)
            self._work.set()

    async def _send(self, tenants: Sequence[str]) -> bool:
        """One statement for all of them. A tenant rung while it runs is due again: its commit may be later."""
        now = time.monotonic()
        for tenant in tenants:
            self._due.pop(tenant, None)
            self._rung[tenant] = now
        sent = False
        try:
            # Plain NOTIFYs, all in one transaction. pg_notify() has a plan and parameters, 30 µs of a wake.
            await self._execute("; ".join(f"NOTIFY {channels.JOBS}, {_literal(tenant)}" for tenant in tenants))
            sent = True
        except DATABASE_ERRORS as error:
            self.failed += len(tenants)
            log.warning("ring not sent", tenants=len(tenants), reason=f"{type(error).__name__}: {error}")
            return False
        finally:
            if not sent:  # a sender who is cancelled does not know; rather twice than never
                for tenant in tenants:
                    self._due.setdefault(tenant, now)
                self._work.set()
        self.sent += len(tenants)
        return True

    async def _execute(self, sql: str, *args: object) -> None:
        """Run a statement on the bus connection, opening one if need be; after any error the next call opens anew."""
        # The wait for the others counts too: on a dead bus each of them takes all of its time.
        give_up_at = time.monotonic() + _ANSWER_TIMEOUT_S
        async with self._conn_lock:
            try:
                if self._conn is None or self._conn.is_closed():
                    async with asyncio.timeout(give_up_at - time.monotonic()):
                        self._conn = await connect(self._dsn, application_name=self._application_name)
                        # A lost ring is no loss, and NOTIFY holds a lock of the whole server until its commit
                        # is on disk.
                        await self._conn.execute("SET synchronous_commit = off")
                # The driver's own timer: asyncio's would take 20 µs of a wake.
                await self._conn.execute(sql, *args, timeout=give_up_at - time.monotonic())
            except BaseException:
                self._hang_up()
                raise

    def _hang_up(self) -> None:
        if self._conn is not None:
            self._conn.terminate()
            self._conn = None


def _literal(text: str) -> str:
    """The text as a literal of SQL, for NOTIFY takes no parameters."""
    return "'" + text.replace("'", "''") + "'"
