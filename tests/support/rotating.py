"""Rotations of a tenant's key, and what becomes of it."""

from typing import Any

from dms_worker.handlers.rewrap_keys import KeyRewrapping
from dms_worker.job_types import JobContext
from nexarch import jobs
from nexarch.job_types import REWRAP_KEYS
from nexarch.tenancy import TenantPools
from support.ingest import Ingest, Person
from support.services import CoreApi


async def rotate(core_api: CoreApi, person: Person) -> None:
    """Give the person's tenant a new key."""
    status, answer = await core_api.call("POST", f"/v1/tenants/{person.tenant.slug}/kek/rotate")
    assert status == 200, answer


async def states(core_api: CoreApi, person: Person) -> dict[int, str]:
    """The versions of the tenant's key, and what each is good for."""
    _, answer = await core_api.call("GET", f"/v1/tenants/{person.tenant.slug}/kek/versions")
    return {item["version"]: item["state"] for item in answer["items"]}


async def content(ingest: Ingest, person: Person, document: dict[str, Any]) -> bytes:
    """The bytes of a document, as the person gets them."""
    url = f"{ingest.url}/v1/documents/{document['id']}/content"
    async with ingest.session.get(url, headers=person.headers) as response:
        assert response.status == 200, await response.text()
        return await response.read()


async def rewrap(core_api: CoreApi, person: Person, rows_a_step: int = 200) -> None:
    """Do the job once, as the worker would, without the queue around it."""
    async with core_api.client("dms_worker") as core:
        pools = TenantPools(core.database, application_name="tests-worker")
        try:
            async with pools.pool(person.tenant.slug) as pool:
                async with pool.acquire() as conn:
                    await jobs.enqueue(conn, REWRAP_KEYS, {})
                    (job,) = await jobs.claim(conn, "tests", {REWRAP_KEYS: 1})
                await KeyRewrapping(core, pools, rows_a_step).run(JobContext(person.tenant.slug, job, pool))
        finally:
            await pools.close()
