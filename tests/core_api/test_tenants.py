"""Tenants over HTTP."""

import asyncpg
import pytest

from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_a_new_tenant_has_an_active_row_and_a_database_of_its_own(core_api: CoreApi) -> None:
    slug = core_api.new_slug()

    status, tenant = await core_api.call("POST", "/v1/tenants", json={"slug": slug, "name": "Acme AG"})

    assert status == 201, tenant
    assert (tenant["slug"], tenant["name"], tenant["status"]) == (slug, "Acme AG", "active")
    _, address = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{slug}/database")
    conn = await asyncpg.connect(
        host=address["host"],
        port=address["port"],
        database=address["database"],
        user=address["user"],
        password=address["password"],
    )
    assert await conn.fetchval("SELECT count(*) FROM users") == 0
    assert await conn.fetchval("SHOW statement_timeout") == "1min"
    await conn.close()
