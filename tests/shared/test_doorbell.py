"""The doorbell is quick, coalesces, and never harms who rings it."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from nexarch import channels
from nexarch.bell_metrics import count_rings
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from support.proxy import proxied
from support.waiting import eventually

pytestmark = pytest.mark.database

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Ear:
    """A session that counts the rings it hears."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.rings: Counter[str] = Counter()
        self.changed = asyncio.Event()

    def hear(self, _conn: object, _pid: int, _channel: str, payload: object) -> None:
        self.rings[str(payload)] += 1
        self.changed.set()

    async def wait_for(self, tenant: str, number: int = 1) -> None:
        async with asyncio.timeout(10):
            while self.rings[tenant] < number:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def ear(registry_dsn: str) -> AsyncIterator[Ear]:
    conn = await connect(registry_dsn, application_name="tests")
    ear = Ear(conn)
    await conn.add_listener(channels.JOBS, ear.hear)
    yield ear
    await conn.close()


@pytest.fixture
async def bell(bus_dsn: str) -> AsyncIterator[Doorbell]:
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        yield bell


async def all_sent(bell: Doorbell, rings: int) -> None:
    """Wait until the bus has acknowledged them; some of them may have stood for others."""

    async def acknowledged() -> bool:
        return bell.sent + bell.coalesced == rings

    await eventually(acknowledged)


async def add_tenant(conn: Connection, slug: str, active_at: datetime = LONG_AGO) -> None:
    await conn.execute("INSERT INTO tenants (slug, name, active_at) VALUES ($1, $1, $2)", slug, active_at)


async def active_at(conn: Connection, slug: str) -> datetime:
    at: datetime = await conn.fetchval("SELECT active_at FROM tenants WHERE slug = $1", slug)
    return at


async def test_a_ring_is_heard(bell: Doorbell, ear: Ear) -> None:
    bell.ring("acme")

    await ear.wait_for("acme")
    await all_sent(bell, 1)


async def test_a_name_is_rung_as_it_is_whatever_it_holds(bell: Doorbell, ear: Ear) -> None:
    names = ["o'hara", "'; NOTIFY jobs, 'other", "back\\'slash\\", "ä $1 {jobs}"]

    for name in names:
        bell.ring(name)

    for name in names:
        await ear.wait_for(name)
    assert set(ear.rings) == set(names)


async def test_rings_in_a_burst_become_few_and_the_last_one_is_not_forgotten(bell: Doorbell, ear: Ear) -> None:
    bell.ring("acme")
    await ear.wait_for("acme")
    started = time.monotonic()
    for _ in range(1000):
        bell.ring("acme")
        await asyncio.sleep(0)
    burst_s = time.monotonic() - started
    heard_before_the_last = ear.rings["acme"]
    bell.ring("acme")

    await ear.wait_for("acme", heard_before_the_last + 1)

    await all_sent(bell, 1002)
    assert bell.sent <= 3 + burst_s / 0.010


async def test_a_ring_while_another_is_on_its_way_is_sent_too(bus_dsn: str, ear: Ear) -> None:
    async with Doorbell(bus_dsn, application_name="tests-bell", interval_s=0.0) as bell:
        bell.ring("acme")
        await ear.wait_for("acme")
        for number in range(2, 50):
            bell.ring("acme")
            await ear.wait_for("acme", number)


async def test_other_channels_are_told_too(bell: Doorbell, ear: Ear) -> None:
    await ear.conn.add_listener(channels.UPLOADS, ear.hear)

    await bell.tell(channels.UPLOADS, "some upload")

    await ear.wait_for("some upload")


async def test_tenants_do_not_wait_for_each_other(bell: Doorbell, ear: Ear) -> None:
    for number in range(200):
        bell.ring(f"tenant_{number}")

    for number in range(200):
        await ear.wait_for(f"tenant_{number}")

    await all_sent(bell, 200)


async def test_a_bell_without_a_bus_harms_nobody(unused_tcp_port: int) -> None:
    dsn = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/nothing"
    async with Doorbell(dsn, application_name="tests-bell") as bell:
        bell.ring("acme")
        await bell.arm("acme")

        async def failures_are_counted() -> bool:
            return bell.failed > 0 and bell.arm_failed == 1

        await eventually(failures_are_counted)


async def test_callers_do_not_wait_one_after_the_other_for_a_bus_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        dsn = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing"
        async with Doorbell(dsn, application_name="tests-bell") as bell:
            started = time.monotonic()
            await asyncio.gather(
                *(bell.tell(channels.JOB_CANCELS, "acme") for _ in range(4)),
                *(bell.arm(f"tenant_{number}") for number in range(4)),
            )

            assert time.monotonic() - started < 6  # each alone takes two seconds


async def test_a_ring_that_failed_is_sent_when_the_bus_is_back(bus_dsn: str, ear: Ear) -> None:
    async with proxied(bus_dsn) as (dsn, proxy), Doorbell(dsn, application_name="tests-bell") as bell:
        bell.ring("before")
        await ear.wait_for("before")
        await proxy.refuse()
        proxy.cut()
        bell.ring("during")

        async def it_failed() -> bool:
            return bell.failed > 0

        await eventually(it_failed)
        await proxy.accept()

        await ear.wait_for("during")


async def test_leaving_sends_what_is_still_due(bus_dsn: str, ear: Ear) -> None:
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        bell.ring("acme")

    await ear.wait_for("acme")


@pytest.mark.parametrize("passes", range(1, 8))
async def test_leaving_sends_what_was_just_on_its_way(bus_dsn: str, ear: Ear, passes: int) -> None:
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        bell.ring("acme")
        for _ in range(passes):  # until it waits for its connection
            await asyncio.sleep(0)

    await ear.wait_for("acme")


async def test_arming_marks_the_tenant_as_active_and_no_other(bell: Doorbell, ear: Ear) -> None:
    await add_tenant(ear.conn, "acme")
    await add_tenant(ear.conn, "other")

    await bell.arm("acme")

    assert await ear.conn.fetchval("SELECT active_at > now() - interval '1 minute' FROM tenants WHERE slug = 'acme'")
    assert await active_at(ear.conn, "other") == LONG_AGO


async def test_a_tenant_is_armed_once_a_minute(bell: Doorbell, ear: Ear) -> None:
    await add_tenant(ear.conn, "acme")
    await asyncio.gather(*(bell.arm("acme") for _ in range(20)))
    await ear.conn.execute("UPDATE tenants SET active_at = $1", LONG_AGO)

    await bell.arm("acme")

    assert await active_at(ear.conn, "acme") == LONG_AGO


async def test_a_failed_arming_is_tried_again_later_and_does_not_hold_up_commits(bus_dsn: str, ear: Ear) -> None:
    async with proxied(bus_dsn) as (dsn, proxy), Doorbell(dsn, application_name="tests-bell") as bell:
        bell.ring("acme")

        await all_sent(bell, 1)
        proxy.swallow_everything()
        await bell.arm("acme")

        started = time.monotonic()
        for _ in range(100):
            await bell.arm("acme")

        assert bell.arm_failed == 1
        assert time.monotonic() - started < 1


async def test_the_bus_role_may_arm_and_nothing_else(bus_dsn: str, ear: Ear) -> None:
    await add_tenant(ear.conn, "acme")
    bus = await connect(bus_dsn, application_name="tests")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await bus.fetch("SELECT slug FROM tenants")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await bus.execute("UPDATE tenants SET active_at = now()")
    await bus.execute("SELECT arm_tenant('acme')")

    await bus.close()
    assert await active_at(ear.conn, "acme") > LONG_AGO


async def test_nobody_else_may_arm(ear: Ear) -> None:
    allowed = await ear.conn.fetchval(
        "SELECT has_function_privilege('nexarch_bus', 'arm_tenant(text)', 'EXECUTE')"
        " AND NOT EXISTS (SELECT FROM aclexplode((SELECT proacl FROM pg_proc WHERE proname = 'arm_tenant'))"
        " WHERE grantee = 0)"
    )

    assert allowed


async def test_the_rings_are_counted_in_the_metrics(bus_dsn: str) -> None:
    registry = CollectorRegistry()
    async with Doorbell(bus_dsn, application_name="tests", interval_s=60.0) as bell:
        count_rings(registry, bell)
        bell.ring("acme")
        await eventually(lambda: sent(bell))
        bell.ring("acme")
        bell.ring("acme")

        counted = {
            result: registry.get_sample_value("nexarch_rings_total", {"result": result})
            for result in ("sent", "coalesced", "failed")
        }

    assert counted == {"sent": 1, "coalesced": 1, "failed": 0}


async def sent(bell: Doorbell) -> bool:
    return bell.sent == 1
