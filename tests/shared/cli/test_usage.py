"""`nexarch usage` against a running core-api and dms-ingest."""

import pytest

from core_api.keys import REGISTRY
from support.command import Command
from support.ingest import PDF, Ingest, Person
from support.services import CoreApi, owner_database

pytestmark = pytest.mark.database


@pytest.fixture
def everywhere(operator: Command, ingest: Ingest) -> Command:
    """The operator's command, which knows dms-ingest too."""
    return Command(operator.home, operator.variables | {"NEXARCH_INGEST_URL": ingest.url})


async def test_falsified_counters_come_right_with_the_tenant_and_in_core_api(
    core_api: CoreApi, ingest: Ingest, editor: Person, everywhere: Command
) -> None:
    slug = editor.tenant.slug
    await ingest.upload(editor, PDF)
    async with owner_database(core_api, editor.tenant) as conn:
        await conn.execute("UPDATE storage_usage SET used_bytes = 7000")
    right = await everywhere("usage", "recount", slug, "--json")
    async with core_api.app[REGISTRY].acquire() as registry:
        await registry.execute("UPDATE usage_totals SET value = 123456")

    both = await everywhere("usage", "recount", "--json")
    table = await everywhere("usage", "recount", slug)
    _, usage = await ingest.call(editor, "GET", "/v1/usage")
    _, totals = await core_api.call("GET", "/v1/usage")

    size = len(PDF)
    assert right.code == 0, right.err
    assert right.json["items"][0] | {"core_before": None} == {
        "tenant": slug, "before": 7000, "after": size, "delta": size - 7000, "core_before": None, "core_after": size,
    }  # fmt: skip
    assert (both.json["items"][0]["core_before"], both.json["items"][0]["core_after"]) == (123456, size)
    assert slug in table.out
    assert usage["used_bytes"] == size
    assert [total["value"] for total in totals["items"]] == [size]


async def test_a_tenant_that_is_not_there_is_an_exit_code_of_3(everywhere: Command) -> None:
    result = await everywhere("usage", "recount", "nobody")

    assert result.code == 3
