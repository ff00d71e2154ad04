"""Hearing NOTIFY: one connection of its own, that does no other work and never opens a transaction.

A session that sat in a transaction would keep the server's notification queue from being emptied, and a pooled
connection would forget its LISTEN. A connection can also go deaf without a word (a firewall forgets it, a proxy
swallows bytes), so the listener sends itself a notification every few seconds and waits for the echo.
"""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from nexarch.db import DATABASE_ERRORS, Connection, connect

Wake = Callable[[str | None], None]

_PING_INTERVAL_S = 4.0
_ANSWER_TIMEOUT_S = 3.0  # a dead connection is known after at most 7 s; a turn on a dead one too adds 5 s
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 5.0

log = structlog.get_logger(__name__)


class Listener:
    """Calls `wake(payload)` for every notification on its channel, for as long as `run` runs.

    At every connection, the first one too, each `wake` is called once with None: notifications may have been
    missed, look everywhere. LISTEN comes before that call, so nothing falls between the look and the LISTEN.
    A `wake` must not block; what it raises is logged.
    """

    def __init__(
        self,
        dsn: str,
        wakes: Mapping[str, Wake],
        *,
        application_name: str,
        ping_interval_s: float = _PING_INTERVAL_S,
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> None:
        self._dsn = dsn
        self._wakes = dict(wakes)
        self._application_name = application_name
        self._ping_interval_s = ping_interval_s
        self._answer_timeout_s = answer_timeout_s
        self._ping_channel = f"ping_{secrets.token_hex(8)}"
        self._echo = asyncio.Event()
        self._ended = asyncio.Event()
        self.connected = False  # for /readyz and the metrics, like the next two
        self.connections = 0
        self.notifications = 0

    async def run(self) -> None:
        """Listen until cancelled; never ends by itself, whatever the database does."""
        failures = 0
        while True:
            connections = self.connections
            try:
                await self._listen_once()
            except DATABASE_ERRORS as error:
                failures = 1 if self.connections > connections else failures + 1
                log.warning("event bus lost", reason=f"{type(error).__name__}: {error}", failures=failures)
            finally:
                self.connected = False
            await asyncio.sleep(backoff_s(failures, _FIRST_BACKOFF_S, _LONGEST_BACKOFF_S))

    async def _listen_once(self) -> None:
        """One connection from birth to death; raises what killed it."""
        conn = await connect(self._dsn, application_name=self._application_name, timeout_s=self._answer_timeout_s)
        try:
            self._ended.clear()
            conn.add_termination_listener(lambda _conn: self._ended.set())
            async with asyncio.timeout(self._answer_timeout_s):
                # The echo is not worth a wait for the disk, least of all inside the server's one NOTIFY lock.
                await conn.execute("SET synchronous_commit = off")
                for channel in (self._ping_channel, *self._wakes):
                    await conn.add_listener(channel, self._heard)
            self.connected = True
            self.connections += 1
            for channel in self._wakes:
                self._wake(channel, None)
            while True:
                await self._ping(conn)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), self._ping_interval_s)
        finally:
            conn.terminate()  # a close would wait for an answer that a dead connection never gives

    async def _ping(self, conn: Connection) -> None:
        """Send the listener a notification and wait for it: proves both directions and the LISTEN itself."""
        if self._ended.is_set():
            raise ConnectionResetError("the server closed the connection")
        self._echo.clear()
        async with asyncio.timeout(self._answer_timeout_s):
            await conn.execute("SELECT pg_notify($1, '')", self._ping_channel)
            await self._echo.wait()

    def _heard(self, _conn: Any, _pid: int, channel: str, payload: object) -> None:  # noqa: ANN401 - asyncpg's type
        if channel == self._ping_channel:
            self._echo.set()
            return
        self.notifications += 1
        self._wake(channel, str(payload))

    def _wake(self, channel: str, payload: str | None) -> None:
        try:
            self._wakes[channel](payload)
        except Exception:  # a fault of whoever is woken must not make us deaf for all the others
            log.exception("waking failed", channel=channel)


def backoff_s(failures: int, first_s: float, longest_s: float) -> float:
    """How long to wait after so many failures in a row: doubling from `first_s`, at most `longest_s`, and of
    that a random share between a half and all, so that a restarted server is not met by everyone at once.
    """
    delay = min(longest_s, first_s * 2.0 ** min(max(failures - 1, 0), 16))
    return delay * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
