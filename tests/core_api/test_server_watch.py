"""core-api shows the age of the oldest transaction on the server, whoever holds it."""

import asyncio
import math

import pytest
from prometheus_client import CollectorRegistry

from core_api.server_watch import watch_server
from nexarch.db import connect, create_pool
from support.database import free_port
from support.waiting import eventually

pytestmark = pytest.mark.database

METRIC = "nexarch_postgres_oldest_transaction_seconds"


async def test_a_snapshot_that_a_tenants_role_forgot_is_seen_in_the_metric_until_it_ends(
    registry_dsn: str, tenant_dsn: str
) -> None:
    metrics = CollectorRegistry()
    forgetful = await connect(tenant_dsn, application_name="tests-forgetful")
    transaction = forgetful.transaction(isolation="repeatable_read", readonly=True)
    async with create_pool(registry_dsn, max_size=1, application_name="tests") as pool:
        watch = asyncio.create_task(watch_server(pool, metrics, every_s=0.02))
        await transaction.start()
        await forgetful.fetchval("SELECT 1")

        async def it_is_getting_old() -> bool:
            return (metrics.get_sample_value(METRIC) or 0.0) > 0.3

        await eventually(it_is_getting_old)
        await transaction.rollback()

        async def it_is_young_again() -> bool:
            return (metrics.get_sample_value(METRIC) or 0.0) < 0.3

        await eventually(it_is_young_again)
        watch.cancel()
    await forgetful.close()


async def test_the_age_is_unknown_while_the_server_is_away() -> None:
    metrics = CollectorRegistry()
    nowhere = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    async with create_pool(nowhere, max_size=1, application_name="tests") as pool:
        watch = asyncio.create_task(watch_server(pool, metrics, every_s=0.02))

        async def it_is_unknown() -> bool:
            return math.isnan(metrics.get_sample_value(METRIC) or 0.0)

        await eventually(it_is_unknown)
        watch.cancel()
