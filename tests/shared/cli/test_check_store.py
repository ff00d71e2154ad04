"""`nexarch check-store` against running services."""

from pathlib import Path

import pytest

from support.checking import object_file
from support.command import Command
from support.ingest import PDF, Ingest, sign_in
from support.services import CoreApi
from support.user_command import user_command
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database


async def test_an_admin_and_an_operator_have_a_store_checked_and_see_what_is_wrong(
    core_api: CoreApi, ingest: Ingest, operator: Command, tmp_path: Path
) -> None:
    admin = await sign_in(core_api, role="admin")
    slug = admin.tenant.slug
    document = await ingest.upload(admin, PDF)
    as_admin = user_command(tmp_path / "admin", core_api, admin, ingest.url)
    as_operator = Command(operator.home, operator.variables | {"NEXARCH_INGEST_URL": ingest.url})

    async with run_worker(worker_settings(core_api, ingest.settings)):
        well = await as_admin("check-store", "--all", "--wait", "--json")
        object_file(ingest, admin, document).unlink()
        table = await as_operator("check-store", slug, "--all", "--wait")
        damaged = await as_admin("documents", "list", "--state", "damaged", "--json")
    ordered = await as_operator("check-store", slug, "--json")
    too_soon = await as_operator("check-store", slug, "--wait", "--timeout", "0.5")

    assert (well.code, well.json["contents"], well.json["findings"]) == (0, 1, [])
    assert table.code == 1
    assert document["id"] in table.out
    assert "missing" in table.out
    assert [each["id"] for each in damaged.json["items"]] == [document["id"]]
    assert (ordered.code, ordered.json["scope"], ordered.json["finished_at"]) == (0, "sample", None)
    assert too_soon.code == 5


async def test_an_editor_may_not(nexarch: Command) -> None:
    result = await nexarch("check-store")

    assert result.code == 4


async def test_an_operator_names_the_tenant_and_reaches_nothing_else(core_api: CoreApi, ingest: Ingest) -> None:
    async with ingest.session.post(ingest.url + "/v1/store-checks", headers=core_api.operator, json={}) as response:
        problem = await response.json()
    async with ingest.session.get(ingest.url + "/v1/documents", headers=core_api.operator) as response:
        documents = response.status

    assert problem["type"] == "/problems/tenant-required"
    assert documents == 403
