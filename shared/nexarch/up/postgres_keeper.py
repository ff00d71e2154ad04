"""Keeps the Postgres of `nexarch up` running: its calls are finished, and it is started again when it dies."""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable

from nexarch.postgres import PostgresFailed, PostgresServer

_PAUSE_S = 1.0
_PR_SET_CHILD_SUBREAPER = 36


async def to_the_end(call: Callable[[], None]) -> None:
    """Run a call in a thread and wait for its end, even if cancelled: half a start would leave a server behind."""
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # the terminal's Ctrl-C ends pg_ctl too; the cancellation says enough
        raise


async def keep_running(postgres: PostgresServer, say: Callable[[str], None]) -> None:
    """Start the server again whenever it ends, until cancelled; `adopt_daemons` goes before its first start."""
    while True:
        pid = postgres.pid()
        if pid is not None:
            await _ended(pid)
        say("PostgreSQL has ended; it is started again")
        try:
            await to_the_end(postgres.start)
        except PostgresFailed as error:
            # The sessions of a killed server hold its memory a moment longer.
            say(f"PostgreSQL did not start: {str(error).strip().splitlines()[-1]}")
            await asyncio.sleep(_PAUSE_S)


def adopt_daemons() -> None:
    """Become the parent of what pg_ctl starts and leaves alone (prctl(2)).

    In a container nobody may reap a dead server, and as long as it is a zombie, its lock file holds.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


async def _ended(pid: int) -> None:
    """Return when the process has ended and is reaped; asyncio knows only what it started itself."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    with contextlib.suppress(ChildProcessError):  # another parent has reaped it
        os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - it has ended
