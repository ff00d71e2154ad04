"""Jobs over HTTP: a tenant's admins see and mend their own, operators those of the tenant that they name."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest

from nexarch import channels, jobs
from nexarch.db import Connection, connect
from nexarch.tenant_database import database_dsn
from support.database import Cluster
from support.ingest import PDF, Ingest, Person, sign_in
from support.services import CoreApi
from support.waiting import eventually
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database


@dataclass
class Worker:
    """A running dms-worker, and the admin of a tenant with a connection to that tenant's database."""

    url: str
    session: aiohttp.ClientSession
    admin: Person
    conn: Connection

    async def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, **options: object
    ) -> tuple[int, Any]:
        given = self.admin.headers if headers is None else headers
        async with self.session.request(method, self.url + path, headers=given, **options) as answer:  # type: ignore[arg-type]
            return answer.status, await answer.json(content_type=None)

    async def dead_letter(self, job_type: str = "task") -> UUID:
        """A dead letter of a type that this worker does not run."""
        job_id = await jobs.enqueue(self.conn, job_type, {"n": 1})
        (claimed,) = await jobs.claim(self.conn, "w1", {job_type: 1})
        error = jobs.JobError("broken", "It broke.", "Traceback: line 1")
        await jobs.fail(self.conn, claimed, error, delay_s=0, permanent=True)
        return job_id


@pytest.fixture
async def tenant_of_admin(core_api: CoreApi, cluster: Cluster) -> AsyncIterator[tuple[Person, Connection]]:
    admin = await sign_in(core_api, role="admin")
    conn = await connect(database_dsn(cluster.superuser_dsn, f"tenant_{admin.tenant.slug}"), application_name="tests")
    yield admin, conn
    await conn.close()


@pytest.fixture
async def worker(
    core_api: CoreApi, ingest: Ingest, tenant_of_admin: tuple[Person, Connection]
) -> AsyncIterator[Worker]:
    async with run_worker(worker_settings(core_api, ingest.settings)) as url, aiohttp.ClientSession() as session:
        yield Worker(url, session, *tenant_of_admin)


async def test_a_dead_letter_is_shown_with_its_payload_and_the_attempts_that_failed(worker: Worker) -> None:
    job_id = await worker.dead_letter()
    await jobs.enqueue(worker.conn, "task", {})

    _, page = await worker.call("GET", "/v1/jobs?status=dead_letter&job_type=task")
    status, job = await worker.call("GET", f"/v1/jobs/{job_id}")

    assert [item["id"] for item in page["items"]] == [str(job_id)]
    assert (status, job["payload"], job["status"]) == (200, {"n": 1}, "dead_letter")
    (attempt,) = job["failed_attempts"]
    assert (attempt["attempt"], attempt["worker"]) == (1, "w1")
    assert attempt["error"] == {"code": "broken", "detail": "It broke.", "traceback": "Traceback: line 1"}


async def test_a_dead_letter_is_requeued_and_nothing_else_is(worker: Worker) -> None:
    job_id = await worker.dead_letter()

    status, job = await worker.call("POST", f"/v1/jobs/{job_id}/requeue")
    again, problem = await worker.call("POST", f"/v1/jobs/{job_id}/requeue")
    nobodys, _ = await worker.call("POST", f"/v1/jobs/{uuid4()}/requeue")

    assert (status, job["status"], job["attempts"]) == (200, "pending", 0)
    assert (again, problem["type"], problem["job_status"]) == (409, "/problems/job-not-dead", "pending")
    assert nobodys == 404


async def test_all_dead_letters_of_a_type_are_requeued(worker: Worker) -> None:
    for job_type in ("task", "task", "other"):
        await worker.dead_letter(job_type)

    status, answer = await worker.call("POST", "/v1/jobs/requeue", json={"job_type": "task"})

    _, dead = await worker.call("GET", "/v1/jobs?status=dead_letter")
    assert (status, answer) == (200, {"requeued": 2})
    assert [item["job_type"] for item in dead["items"]] == ["other"]


async def test_a_dead_letter_is_discarded(worker: Worker) -> None:
    job_id = await worker.dead_letter()

    status, job = await worker.call("POST", f"/v1/jobs/{job_id}/discard")
    again, _ = await worker.call("POST", f"/v1/jobs/{job_id}/discard")

    assert (status, job["status"], job["last_error"]["code"]) == (200, "failed", "broken")
    assert again == 409


async def test_a_requeued_extraction_is_run_at_once(worker: Worker, ingest: Ingest) -> None:
    document = await ingest.upload(worker.admin, PDF)
    job_id = await worker.conn.fetchval("SELECT id FROM processing_jobs")

    async def state_is(state: str) -> bool:
        _, shown = await ingest.call(worker.admin, "GET", f"/v1/documents/{document['id']}")
        return bool(shown["processing_state"] == state)

    await eventually(lambda: state_is("failed"))

    status, _ = await worker.call("POST", f"/v1/jobs/{job_id}/requeue")

    async def second_attempt() -> bool:
        return len(await jobs.list_attempts(worker.conn, job_id)) == 2

    assert status == 200
    await eventually(second_attempt)


async def test_a_cancelled_extraction_is_told_by_its_document_and_can_be_retried(
    core_api: CoreApi, ingest: Ingest, tenant_of_admin: tuple[Person, Connection]
) -> None:
    admin, conn = tenant_of_admin
    document = await ingest.upload(admin, PDF)
    job_id = await conn.fetchval("UPDATE processing_jobs SET available_at = now() + interval '1 hour' RETURNING id")
    async with run_worker(worker_settings(core_api, ingest.settings)) as url, aiohttp.ClientSession() as session:
        worker = Worker(url, session, admin, conn)

        status, job = await worker.call("POST", f"/v1/jobs/{job_id}/cancel")
        again, problem = await worker.call("POST", f"/v1/jobs/{job_id}/cancel")
        _, shown = await ingest.call(admin, "GET", f"/v1/documents/{document['id']}")
        retried, _ = await ingest.call(admin, "POST", f"/v1/documents/{document['id']}/retry")

    assert (status, job["status"]) == (200, "failed")
    assert (again, problem["type"]) == (409, "/problems/job-ended")
    assert (shown["processing_state"], shown["processing_error"]["code"]) == ("failed", "cancelled")
    assert retried == 202


async def test_the_workers_are_told_of_a_running_job_that_is_cancelled(worker: Worker, bus_dsn: str) -> None:
    job_id = await jobs.enqueue(worker.conn, "task", {})
    await jobs.claim(worker.conn, "w1", {"task": 1})
    told: asyncio.Queue[object] = asyncio.Queue()
    ear = await connect(bus_dsn, application_name="tests")
    await ear.add_listener(channels.JOB_CANCELS, lambda *heard: told.put_nowait(heard[-1]))

    status, job = await worker.call("POST", f"/v1/jobs/{job_id}/cancel")

    assert (status, job["status"]) == (200, "processing")
    assert await asyncio.wait_for(told.get(), 10) == worker.admin.tenant.slug
    await ear.close()


async def test_an_operator_names_the_tenant(worker: Worker, core_api: CoreApi) -> None:
    job_id = await worker.dead_letter()
    slug = worker.admin.tenant.slug
    other = (await sign_in(core_api, role="admin")).tenant.slug

    async def ask(method: str, path: str) -> int:
        return (await worker.call(method, path, core_api.operator))[0]

    assert await ask("GET", f"/v1/jobs?tenant={slug}") == 200
    assert await ask("GET", f"/v1/jobs/{job_id}?tenant={other}") == 404
    assert await ask("GET", f"/v1/jobs/{job_id}") == 422
    assert await ask("GET", f"/v1/jobs/{job_id}?tenant=nobody_here") == 404
    assert await ask("POST", f"/v1/jobs/{job_id}/requeue?tenant={slug}") == 200


async def test_who_may_not_is_refused(worker: Worker, core_api: CoreApi) -> None:
    job_id = await worker.dead_letter()
    stranger = await sign_in(core_api, role="admin")
    editor = await sign_in(core_api, role="editor")
    path = f"/v1/jobs/{job_id}/requeue"

    async def ask(headers: dict[str, str], query: str = "") -> int:
        return (await worker.call("POST", path + query, headers))[0]

    assert await ask(stranger.headers) == 404
    assert await ask(stranger.headers, f"?tenant={worker.admin.tenant.slug}") == 404
    assert await ask(editor.headers) == 403
    assert await ask({}) == 401
    assert await ask({"Authorization": "Bearer nxo_" + "x" * 43 + "_00000000"}) == 401
    assert (await jobs.get_job(worker.conn, job_id)).status == "dead_letter"
