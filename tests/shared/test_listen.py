"""The listener hears what is notified, and notices when it no longer would."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from nexarch.db import Connection, connect
from nexarch.listen import Listener, backoff_s
from support.proxy import proxied

pytestmark = pytest.mark.database


class Heard:
    """What a listener was woken with, in order."""

    def __init__(self) -> None:
        self.wakes: asyncio.Queue[str | None] = asyncio.Queue()

    def __call__(self, payload: str | None) -> None:
        self.wakes.put_nowait(payload)

    async def next(self, within_s: float = 10.0) -> str | None:
        return await asyncio.wait_for(self.wakes.get(), within_s)


@asynccontextmanager
async def listening(
    dsn: str, wake: Callable[[str | None], None], ping_interval_s: float = 5.0, answer_timeout_s: float = 4.0
) -> AsyncIterator[Listener]:
    listener = Listener(
        dsn,
        {"jobs": wake},
        application_name="tests-listener",
        ping_interval_s=ping_interval_s,
        answer_timeout_s=answer_timeout_s,
    )
    task = asyncio.create_task(listener.run())
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def owner(registry_dsn: str) -> AsyncIterator[Connection]:
    """A session of the registry's owner."""
    conn = await connect(registry_dsn, application_name="tests")
    yield conn
    await conn.close()


async def notify(conn: Connection, payload: str) -> None:
    await conn.execute("SELECT pg_notify('jobs', $1)", payload)


async def terminate(conn: Connection) -> None:
    terminated = await conn.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tests-listener'"
    )
    assert terminated == 1


async def test_it_wakes_once_at_the_start_and_then_for_each_notification(bus_dsn: str, owner: Connection) -> None:
    heard = Heard()
    async with listening(bus_dsn, heard) as listener:
        first = await heard.next()

        await notify(owner, "acme")
        await notify(owner, "Größe")

        assert first is None
        assert [await heard.next(), await heard.next()] == ["acme", "Größe"]
        assert listener.connected
        assert (listener.connections, listener.notifications) == (1, 2)


async def test_what_is_notified_as_soon_as_it_woke_is_heard(bus_dsn: str, owner: Connection) -> None:
    for _ in range(10):
        heard = Heard()
        async with listening(bus_dsn, heard):
            await heard.next()
            await notify(owner, "early")

            assert await heard.next() == "early"


async def test_it_hears_again_after_its_session_was_terminated(bus_dsn: str, tenant_owner_dsn: str) -> None:
    # Only the role itself, or one with its rights, may end its sessions.
    heard = Heard()
    bus = await connect(bus_dsn, application_name="tests")
    async with listening(bus_dsn, heard) as listener:
        await heard.next()

        await terminate(bus)

        assert await heard.next(within_s=5) is None
        await notify(bus, "after")
        assert await heard.next() == "after"
        assert listener.connections == 2
    await bus.close()


async def test_it_never_sits_in_a_transaction(bus_dsn: str, owner: Connection) -> None:
    heard = Heard()
    bus = await connect(bus_dsn, application_name="tests")
    async with listening(bus_dsn, heard, ping_interval_s=0.01):
        await heard.next()

        states = [
            await bus.fetchval("SELECT state FROM pg_stat_activity WHERE application_name = 'tests-listener'")
            for _ in range(50)
        ]

        assert "idle in transaction" not in states
    await bus.close()


async def test_a_connection_that_went_deaf_is_replaced(bus_dsn: str, owner: Connection) -> None:
    heard = Heard()
    async with (
        proxied(bus_dsn) as (dsn, proxy),
        listening(dsn, heard, ping_interval_s=0.2, answer_timeout_s=0.5) as listener,
    ):
        await heard.next()
        proxy.swallow_everything()
        await notify(owner, "swallowed")

        assert await heard.next() is None
        await notify(owner, "after")
        assert await heard.next() == "after"
        assert listener.connections == 2


async def test_the_default_times_find_a_deaf_connection_within_fifteen_seconds(bus_dsn: str, owner: Connection) -> None:
    heard = Heard()
    async with proxied(bus_dsn) as (dsn, proxy), listening(dsn, heard):
        await heard.next()
        proxy.swallow_everything()

        assert await heard.next(within_s=15) is None


async def test_it_waits_for_a_database_that_is_not_there_yet(bus_dsn: str) -> None:
    heard = Heard()
    async with proxied(bus_dsn) as (dsn, proxy):
        await proxy.refuse()
        async with listening(dsn, heard) as listener:
            done, _ = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.3))])
            assert done
            assert not listener.connected

            await proxy.accept()

            assert await heard.next() is None
            assert listener.connected


async def test_a_wake_that_raises_does_not_stop_the_others(bus_dsn: str, owner: Connection) -> None:
    heard = Heard()

    def wake(payload: str | None) -> None:
        heard(payload)
        raise RuntimeError("a fault in the listener's user")

    async with listening(bus_dsn, wake):
        await heard.next()

        await notify(owner, "one")
        await notify(owner, "two")

        assert [await heard.next(), await heard.next()] == ["one", "two"]


def test_backoff_doubles_up_to_the_longest_and_is_spread() -> None:
    delays = [[backoff_s(failures, 1.0, 8.0) for _ in range(100)] for failures in (1, 2, 5, 500)]

    assert all(0.5 <= delay <= 1 for delay in delays[0])
    assert all(1 <= delay <= 2 for delay in delays[1])
    assert all(4 <= delay <= 8 for delay in delays[2] + delays[3])
    assert len(set(delays[0])) > 1
