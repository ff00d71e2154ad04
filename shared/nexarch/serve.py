"""Runs an application until SIGTERM or SIGINT, then drains it: no request that was accepted is cut off.

aiohttp's own `run_app` closes the listener at once on SIGTERM. A balancer that has not noticed yet would send its
users against a closed port, so the order here is: /readyz says 503, the listener stays for `drain_delay_s`, then it
closes, running requests and jobs have `grace_period_s`, and the process exits with 0. A second signal ends the wait.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from nexarch import logs
from nexarch.http import DRAINING, INTERNAL
from nexarch.settings import ServiceSettings

log = structlog.get_logger(__name__)

FATAL: web.AppKey[asyncio.Future[None]] = web.AppKey("fatal", asyncio.Future)


def serve(service: str, settings: ServiceSettings, create_app: Callable[[], web.Application]) -> int:
    """Configure logs, run the application and return the exit code: 0 after a signal, 1 if a task of it died."""
    logs.configure(service, settings.log_level, settings.log_format)
    return asyncio.run(_serve(settings, create_app))


async def _serve(settings: ServiceSettings, create_app: Callable[[], web.Application]) -> int:
    app = create_app()
    app[FATAL] = asyncio.get_running_loop().create_future()
    signals = _Signals(asyncio.get_running_loop())
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=settings.grace_period_s)
    exit_code = 0
    try:
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port, backlog=1024)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with _internal_listener(app, settings):
            log.info("listening", url=f"http://{host}:{port}")
            exit_code = await _until_told(app, signals)
            app[DRAINING].set()
            if exit_code == 0 and signals.polite:
                log.info("draining", delay_s=settings.drain_delay_s, grace_s=settings.grace_period_s)
                await signals.second(settings.drain_delay_s)
    finally:
        app[DRAINING].set()
        await runner.cleanup()
        app[FATAL].cancel()
        log.info("stopped", exit_code=exit_code)
    return exit_code


@asynccontextmanager
async def _internal_listener(app: web.Application, settings: ServiceSettings) -> AsyncIterator[None]:
    """Serve `app[INTERNAL]` on `internal_port`; nothing where there is none."""
    if settings.internal_port is None:
        yield
        return
    runner = web.AppRunner(app[INTERNAL], access_log=None, handle_signals=False, shutdown_timeout=1.0)
    try:
        await runner.setup()
        await web.TCPSite(runner, settings.host, settings.internal_port).start()
        host, port = runner.addresses[0][:2]
        log.info("listening internally", url=f"http://{host}:{port}")
        yield
    finally:
        await runner.cleanup()


class _Signals:
    """SIGTERM and SIGINT as events; only the first SIGTERM of a supervisor is followed by the drain delay."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._count = 0
        self._changed = asyncio.Event()
        self.polite = False
        loop.add_signal_handler(signal.SIGTERM, self._received, True)
        loop.add_signal_handler(signal.SIGINT, self._received, False)

    def _received(self, polite: bool) -> None:
        self._count += 1
        self.polite = polite and self._count == 1
        self._changed.set()

    async def first(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def second(self, timeout_s: float) -> None:
        """Return at the next signal, or after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return


async def _until_told(app: web.Application, signals: _Signals) -> int:
    told = asyncio.ensure_future(signals.first())
    try:
        await asyncio.wait([told, app[FATAL]], return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
    return 1 if app[FATAL].done() else 0


@asynccontextmanager
async def background(app: web.Application, name: str, work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a task beside the requests. If it dies, the process ends with 1, to be started afresh by its supervisor."""
    task = asyncio.create_task(work, name=name)

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled() or (task.exception() is None and app[DRAINING].is_set()):
            return  # told to stop
        log.critical("background task died", task=name, exc_info=task.exception())
        fatal = app.get(FATAL)
        if fatal is not None and not fatal.done():
            fatal.set_result(None)

    task.add_done_callback(ended)
    try:
        yield
    finally:
        task.remove_done_callback(ended)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
