"""A tenant's key: rotated by operators, retired when nothing uses it, destroyed on purpose."""

import asyncio
import logging
from contextlib import suppress
from uuid import UUID

import asyncpg
import pytest

from dms_ingest.revisions import WrappingOutdated
from nexarch.core_client import KeyRetired, KeyShredded
from nexarch.db import Connection, connect
from support.documents import a_revision, add_document, new_id
from support.services import CoreApi, Tenant, owner_database

pytestmark = pytest.mark.database


async def post(core_api: CoreApi, tenant: Tenant, what: str, json: object = None) -> tuple[int, dict[int, str]]:
    """Status, and the versions with their states; of a problem its code at 0."""
    path = f"/v1/tenants/{tenant.slug}/kek/{what}"
    if what == "retire":
        status, answer = await core_api.as_module("dms_worker", "POST", path)
    else:
        status, answer = await core_api.call("POST", path, json=json)
    if status != 200:
        return status, {0: answer["type"].removeprefix("/problems/")}
    return status, {item["version"]: item["state"] for item in answer["items"]}


async def test_a_rotated_key_wraps_and_the_one_before_still_unwraps(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    async with core_api.client("dms_ingest") as client:
        first = await client.kek(tenant.slug)

        rotated = await post(core_api, tenant, "rotate")

        second, old = await client.kek(tenant.slug), await client.kek(tenant.slug, 1)
    assert rotated == (200, {2: "active", 1: "retiring"})
    assert (second.kek_version, old.kek_version) == (2, 1)
    assert old.kek == first.kek != second.kek


async def test_a_version_is_retired_when_no_row_names_it_and_not_before(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    async with owner_database(core_api, tenant) as conn, core_api.client("dms_ingest") as client:
        await add_document(conn, tenant.user_id)
        await post(core_api, tenant, "rotate")

        in_use = await post(core_api, tenant, "retire")
        await conn.execute("UPDATE file_revisions SET kek_version = 2")
        unused = await post(core_api, tenant, "retire")

        assert in_use == (200, {2: "active", 1: "retiring"})
        assert unused == (200, {2: "active", 1: "retired"})
        with pytest.raises(KeyRetired):
            await client.kek(tenant.slug, 1)


async def test_a_version_that_an_open_upload_names_is_not_retired(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    sql = """
        INSERT INTO upload_sessions (user_id, filename, mime_type, size_bytes, expires_at, wrapped_key, kek_version)
        VALUES ($1, 'a.pdf', 'application/pdf', 1, now() + interval '1 day', decode(repeat('00', 60), 'hex'), 1)
    """
    async with owner_database(core_api, tenant) as conn:
        await conn.execute(sql, tenant.user_id)
        await post(core_api, tenant, "rotate")

        in_use = await post(core_api, tenant, "retire")
        await conn.execute("UPDATE upload_sessions SET wrapped_key = NULL, kek_version = NULL, state = 'aborted'")
        unused = await post(core_api, tenant, "retire")

    assert (in_use[1][1], unused[1][1]) == ("retiring", "retired")


async def test_a_row_that_is_about_to_be_committed_keeps_its_version(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    async with owner_database(core_api, tenant) as conn:
        transaction = conn.transaction()
        await transaction.start()
        await add_document(conn, tenant.user_id)
        await post(core_api, tenant, "rotate")

        while_open = await post(core_api, tenant, "retire")
        await transaction.commit()
        afterwards = await post(core_api, tenant, "retire")

    assert (while_open[1][1], afterwards[1][1]) == ("retiring", "retiring")


async def test_a_row_that_comes_after_its_version_was_retired_is_refused(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    async with owner_database(core_api, tenant) as conn:
        await post(core_api, tenant, "rotate")
        await post(core_api, tenant, "retire")

        with pytest.raises(WrappingOutdated):
            await add_document(conn, tenant.user_id)

        assert await conn.fetchval("SELECT count(*) FROM file_revisions") == 0


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_the_order_every_row_names_a_version_that_opens(core_api: CoreApi, seed: int) -> None:
    """Completes, rotations and retirements at once: no row is ever left with a version that is retired."""
    tenant = await core_api.create_tenant()

    async def complete(conn: Connection, document_id: UUID) -> None:
        async with core_api.client("dms_ingest") as client:
            for _ in range(8):
                version = (await client.kek(tenant.slug)).kek_version
                await asyncio.sleep(0.01 * (seed + 1))  # what sealing takes: a version may be retired meanwhile
                with suppress(asyncpg.ForeignKeyViolationError):  # it was
                    async with conn.transaction():
                        revision = a_revision(await new_id(conn), document_id, tenant.user_id)
                        await conn.execute(
                            "INSERT INTO file_revisions (id, document_id, number, storage_key, checksum_sha256, "
                            "size_bytes, mime_type, wrapped_dek, kek_version) "
                            "SELECT $1, $2, max(number) + 1, $3, $4, 1, 'text/plain', $5, $6 "
                            "FROM file_revisions WHERE document_id = $2",
                            revision.id,
                            document_id,
                            f"documents/{document_id}/revisions/{revision.id}",
                            revision.checksum_sha256,
                            revision.wrapped_dek,
                            version,
                        )
                        await asyncio.sleep(0.005)  # so that some rows are not committed when others are retired

    async def rotate() -> None:
        async with owner_database(core_api, tenant) as conn:
            for _ in range(6):
                status, versions = await post(core_api, tenant, "rotate")
                assert status == 200
                await conn.execute("UPDATE file_revisions SET kek_version = $1 WHERE kek_version < $1", max(versions))
                assert (await post(core_api, tenant, "retire"))[0] == 200

    async with owner_database(core_api, tenant) as one, owner_database(core_api, tenant) as other:
        documents = [await add_document(conn, tenant.user_id) for conn in (one, other)]
        await asyncio.gather(complete(one, documents[0]), complete(other, documents[1]), rotate())
        named = {record[0] for record in await one.fetch("SELECT DISTINCT kek_version FROM file_revisions")}
    _, answer = await core_api.call("GET", f"/v1/tenants/{tenant.slug}/kek/versions")
    usable = {item["version"] for item in answer["items"] if item["state"] in {"active", "retiring"}}

    assert named <= usable
    assert len(answer["items"]) == 7


async def test_of_two_rotations_at_once_each_makes_a_version_or_is_refused(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    answers = await asyncio.gather(*(post(core_api, tenant, "rotate") for _ in range(4)))

    _, listed = await core_api.call("GET", f"/v1/tenants/{tenant.slug}/kek/versions")
    made = [status for status, _ in answers].count(200)
    assert made >= 1
    assert {versions[0] for status, versions in answers if status != 200} <= {"kek-rotation-running"}
    assert [item["version"] for item in listed["items"]] == list(range(made + 1, 0, -1))
    assert [item["state"] for item in listed["items"]].count("active") == 1


async def test_a_rotation_that_died_half_way_is_done_again(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    async with owner_database(core_api, tenant) as conn:
        await conn.execute("INSERT INTO kek_versions (version) VALUES (2)")  # it died before its key was made
        await conn.execute("DELETE FROM kek_versions WHERE version = 1")  # and a retirement before it was recorded

    rotated = await post(core_api, tenant, "rotate")
    retired = await post(core_api, tenant, "retire")

    assert rotated == (200, {2: "active", 1: "retiring"})
    assert retired == (200, {2: "active", 1: "retired"})


async def test_a_rotation_orders_the_job_that_wraps_the_rows_anew_once(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    heard: list[str] = []
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await registry.add_listener("jobs", lambda *args: heard.append(str(args[3])))

    for _ in range(2):
        await post(core_api, tenant, "rotate")

    async with owner_database(core_api, tenant) as conn:
        jobs = await conn.fetch("SELECT job_type, status FROM processing_jobs")
    await registry.execute("SELECT 1")
    await registry.close()
    assert [tuple(job) for job in jobs] == [("rewrap_keys", "pending")]
    assert set(heard) == {tenant.slug}


async def test_versions_are_listed_with_states_and_dates_and_without_keys(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await post(core_api, tenant, "rotate")
    await post(core_api, tenant, "retire")

    status, answer = await core_api.call("GET", f"/v1/tenants/{tenant.slug}/kek/versions")

    newest, oldest = answer["items"]
    assert status == 200
    assert newest.keys() == {"version", "state", "created_at", "retired_at", "shredded_at"}
    assert (newest["retired_at"], oldest["retired_at"] is None) == (None, False)


async def test_a_tenant_that_is_at_work_is_not_shredded_nor_one_that_was_not_meant(core_api: CoreApi) -> None:
    tenant, other = [await core_api.create_tenant() for _ in range(2)]
    at_work = await post(core_api, tenant, "shred", {"confirm": tenant.slug})
    await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

    without = await post(core_api, tenant, "shred", {})
    of_another = await post(core_api, tenant, "shred", {"confirm": other.slug})
    status, _ = await core_api.as_module(
        "dms_worker", "POST", f"/v1/tenants/{tenant.slug}/kek/shred", json={"confirm": tenant.slug}
    )

    assert at_work == (409, {0: "tenant-not-suspended"})
    assert (without[0], of_another) == (422, (422, {0: "not-confirmed"}))
    assert status == 403
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    assert await registry.fetchval("SELECT count(*) FROM tenant_keys WHERE sealed_kek IS NULL") == 0
    await registry.close()


async def test_what_is_shredded_is_gone_for_good_and_no_route_brings_it_back(
    core_api: CoreApi, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tenant, other = [await core_api.create_tenant() for _ in range(2)]
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    async with owner_database(core_api, tenant) as conn, core_api.client("dms_ingest") as client:
        await add_document(conn, tenant.user_id)
        key = await client.kek(tenant.slug)
        await post(core_api, tenant, "rotate")
        await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

        shredded = await post(core_api, tenant, "shred", {"confirm": tenant.slug})

        again = await post(core_api, tenant, "shred", {"confirm": tenant.slug})
        assert shredded == again == (200, {2: "shredded", 1: "shredded"})
        for method, path, json in [
            ("POST", f"/v1/tenants/{tenant.slug}/resume", None),
            ("POST", f"/v1/tenants/{tenant.slug}/kek/rotate", None),
            ("POST", "/v1/tenants", {"slug": tenant.slug, "name": "Again"}),
        ]:
            status, _ = await core_api.call(method, path, json=json)
            assert status in {403, 409, 410}, path
        # Not even with the tenant made active by hand.
        await registry.execute("UPDATE tenants SET status = 'active' WHERE slug = $1", tenant.slug)
        assert (await post(core_api, tenant, "rotate"))[1] == {0: "kek-shredded"}
        for version in (None, 1, 2):
            with pytest.raises(KeyShredded):
                await client.kek(tenant.slug, version)
        assert len((await client.kek(other.slug)).kek) == 32
    left = await registry.fetchval("SELECT count(sealed_kek) FROM tenant_keys WHERE tenant_id = $1", tenant.id)
    await registry.close()
    logged = caplog.text + "".join(capsys.readouterr())
    assert left == 0
    assert "tenant keys shredded" in logged
    assert key.tenant_kek_base64.get_secret_value() not in logged


async def test_modules_may_neither_rotate_nor_shred_and_operators_get_no_key(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    path = f"/v1/tenants/{tenant.slug}/kek"

    rotated, _ = await core_api.as_module("dms_ingest", "POST", f"{path}/rotate")
    key, _ = await core_api.call("GET", path)
    retired, _ = await core_api.call("POST", f"{path}/retire")

    assert (rotated, key, retired) == (403, 403, 403)
