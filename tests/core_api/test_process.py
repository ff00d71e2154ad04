"""core-api as a process of its own: stopped politely, killed in the middle of work, started again."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from core_api.bootstrap import OPERATOR_FILE, bootstrap
from core_api.settings import Settings
from nexarch.db import connect
from nexarch.private_files import SecretFolder
from support.database import Cluster
from support.processes import run_service
from support.services import new_master_key, new_slug, remove_tenant
from support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.fixture
def settings(registry_dsn: str) -> Settings:
    return Settings(registry_dsn=SecretStr(registry_dsn), master_key=new_master_key(), port=0, drain_delay_s=0)


@pytest.fixture
async def operator(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """The header of an operator of a bootstrapped registry."""
    await bootstrap(settings, SecretFolder(tmp_path))
    return {"Authorization": f"Bearer {SecretFolder(tmp_path).read(OPERATOR_FILE)}"}


async def test_it_is_ready_and_stops_with_0_when_it_is_told(operator: dict[str, str], settings: Settings) -> None:
    async with run_service("core_api", settings) as core, aiohttp.ClientSession() as session:
        async with session.get(f"{core.url}/readyz") as response:
            status = response.status
        exit_code = await core.stop()

    assert (status, exit_code) == (200, 0)


async def test_it_is_not_ready_under_another_master_key(operator: dict[str, str], settings: Settings) -> None:
    other = settings.model_copy(update={"master_key": new_master_key()})

    async with run_service("core_api", other) as core, aiohttp.request("GET", f"{core.url}/readyz") as response:
        answer = await response.json()

    assert (response.status, answer["failed"]) == (503, {"registry": "SealBroken"})


async def test_killed_while_it_makes_tenants_it_makes_each_once_when_asked_again(
    operator: dict[str, str], settings: Settings, registry_dsn: str, cluster: Cluster
) -> None:
    slugs = [new_slug() for _ in range(6)]
    registry = await connect(registry_dsn, application_name="tests")

    async def some_are_begun() -> bool:
        return bool(await registry.fetchval("SELECT count(*) >= 3 FROM tenants WHERE provision_step <> 'requested'"))

    async with run_service("core_api", settings) as core, aiohttp.ClientSession() as session:
        first = [asyncio.create_task(_create(session, core.url, operator, slug)) for slug in slugs]
        await eventually(some_are_begun, every_s=0.002)
        await core.kill()
        await asyncio.gather(*first, return_exceptions=True)
    finished_before = await registry.fetchval("SELECT count(*) FROM tenants WHERE status = 'active'")
    async with run_service("core_api", settings) as core, aiohttp.ClientSession() as session:
        statuses = [await _create(session, core.url, operator, slug) for slug in slugs]
        again = [await _create(session, core.url, operator, slug) for slug in slugs]

    counts = await registry.fetchrow(
        """
        SELECT (SELECT count(*) FROM tenants WHERE status = 'active') AS tenants,
               (SELECT count(*) FROM tenant_keys) AS keys,
               (SELECT count(*) FROM pg_database WHERE datname = ANY ($1)) AS databases,
               (SELECT count(*) FROM pg_roles WHERE rolname = ANY ($1)) AS roles
        """,
        [f"tenant_{slug}" for slug in slugs],
    )
    await registry.close()
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    for slug in slugs:
        await remove_tenant(superuser, slug)
    await superuser.close()
    assert finished_before < 6
    assert statuses == again == [201] * 6
    assert list((counts or {}).values()) == [6, 6, 6, 6]


async def _create(session: aiohttp.ClientSession, url: str, operator: dict[str, str], slug: str) -> int:
    headers = operator | {"Idempotency-Key": f"make-{slug}"}
    async with session.post(f"{url}/v1/tenants", headers=headers, json={"slug": slug, "name": slug}) as response:
        return response.status
