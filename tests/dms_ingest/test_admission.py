"""What a tenant's settings and the service refuse before any byte is sent."""

from pathlib import Path
from typing import Any

import pytest

from support.ingest import Ingest, Person, ingest_settings, run_ingest, sign_in
from support.services import CoreApi

pytestmark = pytest.mark.database


async def set_policies(ingest: Ingest, admin: Person, **changes: object) -> None:
    status, settings = await ingest.call(admin, "PATCH", "/v1/settings", json=changes)
    assert status == 200, settings


async def announce(ingest: Ingest, person: Person, **fields: object) -> tuple[int, Any]:
    body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": 10} | fields
    return await ingest.call(person, "POST", "/v1/uploads", json=body)


async def test_a_tenants_list_replaces_that_of_the_service(core_api: CoreApi, ingest: Ingest) -> None:
    admin, elsewhere = await sign_in(core_api, role="admin"), await sign_in(core_api)
    await set_policies(ingest, admin, allowed_types=["image/*", "text/html"])

    html, _ = await announce(ingest, admin, mime_type="text/html")
    gif, _ = await announce(ingest, admin, mime_type="image/gif")
    pdf, problem = await announce(ingest, admin, mime_type="application/pdf")
    pdf_elsewhere, _ = await announce(ingest, elsewhere, mime_type="application/pdf")

    assert (html, gif, pdf_elsewhere) == (201, 201, 201)
    assert (pdf, problem["type"]) == (415, "/problems/type-not-allowed")
    assert problem["accepted"] == ["image/*", "text/html"]


async def test_a_tenant_lowers_the_limit_of_the_service_and_cannot_raise_it(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    admin = await sign_in(core_api, role="admin")
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, max_upload_bytes=100)) as ingest:
        await set_policies(ingest, admin, max_upload_bytes=50)
        fits, _ = await announce(ingest, admin, size=50)
        too_large, lowered = await announce(ingest, admin, size=51)
        await set_policies(ingest, admin, max_upload_bytes=1000)
        _, not_raised = await announce(ingest, admin, size=101)

    assert (fits, too_large, lowered["type"]) == (201, 413, "/problems/file-too-large")
    assert (lowered["limit_bytes"], not_raised["limit_bytes"]) == (50, 100)
