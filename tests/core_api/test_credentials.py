"""Modules' credentials: two live at most, refused the moment they end, and nobody can be locked out."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from core_api import credentials
from nexarch.db import Connection, connect
from support.services import CoreApi, Credentials
from support.waiting import eventually

pytestmark = pytest.mark.database

PATH = "/v1/modules/dms_ingest/credentials"


async def provision(core_api: CoreApi, **body: object) -> tuple[int, Any]:
    return await core_api.call("POST", PATH, json=body)


async def who(core_api: CoreApi, headers: dict[str, str]) -> tuple[int, Any]:
    """What a call with these headers is answered."""
    return await core_api.call("GET", "/v1/tenants", headers=headers)


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


async def waits_for_a_lock(conn: Connection) -> None:
    """Wait until a statement of core-api waits for somebody's lock."""

    async def waits() -> bool:
        sql = """
            SELECT EXISTS (SELECT
                             FROM pg_stat_activity
                            WHERE application_name = 'core-api' AND wait_event_type = 'Lock')
        """
        await conn.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees one state of it otherwise
        return bool(await conn.fetchval(sql))

    await eventually(waits)


async def end_all(core_api: CoreApi, when: str) -> None:
    """Let every credential of dms_ingest end at a time, given as SQL."""
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await conn.execute(
        "UPDATE module_credentials SET created_at = now() - interval '1 day' WHERE module_id = 'dms_ingest'"
    )
    await conn.execute(f"UPDATE module_credentials SET not_after = {when} WHERE module_id = 'dms_ingest'")
    await conn.close()


async def test_a_credential_serves_as_headers_and_as_basic(core_api: CoreApi) -> None:
    status, made = await provision(core_api)

    assert status == 201
    assert made["client_secret"].startswith(f"nxs_{made['client_id']}_")
    assert (await who(core_api, Credentials(made["client_id"], made["client_secret"]).headers))[0] == 200
    assert (await who(core_api, basic(made["client_id"], made["client_secret"])))[0] == 200


async def test_the_secret_is_shown_once(core_api: CoreApi) -> None:
    _, made = await provision(core_api)

    _, listed = await core_api.call("GET", PATH)

    assert listed["items"][0]["id"] == made["id"]
    assert "secret" not in str(listed)


async def test_whatever_is_wrong_with_a_credential_the_answer_is_the_same(core_api: CoreApi) -> None:
    ours, other = core_api.modules["dms_ingest"], core_api.modules["alerter"]
    wrong = [
        Credentials("nobody", ours.client_secret),
        Credentials(other.client_id, ours.client_secret),
        Credentials(ours.client_id, other.client_secret),
        Credentials(ours.client_id.upper(), ours.client_secret),
        Credentials(ours.client_id, ours.client_secret[:-1]),
        Credentials(ours.client_id, ours.client_secret.upper()),
        Credentials(ours.client_id, ""),
        Credentials(ours.client_id, "ä" * 100),
    ]

    answers = [await who(core_api, basic(each.client_id, each.client_secret)) for each in wrong]
    answers.append(await who(core_api, basic(ours.client_id, ours.client_secret + "\n")))
    answers.append(await who(core_api, basic(ours.client_id + "\0", ours.client_secret)))

    for status, problem in answers:
        assert (status, problem["type"]) == (401, "/problems/unauthorized")
    assert len({problem["detail"] for _, problem in answers}) == 1


async def test_a_wrong_operator_token_is_refused(core_api: CoreApi) -> None:
    token = core_api.operator_token
    for wrong in ("x", token[:-1], token + "a", token.upper(), "nxo_" + "A" * 43 + "_00000000", "é"):
        status, _ = await who(core_api, {"Authorization": f"Bearer {wrong}"})

        assert status == 401, wrong


async def test_a_secret_in_the_query_is_no_credential(core_api: CoreApi) -> None:
    ours = core_api.modules["dms_ingest"]
    query = {"client_id": ours.client_id, "client_secret": ours.client_secret, "access_token": core_api.operator_token}

    status, _ = await core_api.call("GET", "/v1/tenants", headers={}, params=query)

    assert status == 401


async def test_modules_and_operators_do_not_stand_in_for_each_other(core_api: CoreApi) -> None:
    status, problem = await core_api.as_module("dms_ingest", "POST", "/v1/keys/rotate")
    assert (status, problem["right"]) == (403, "operator")

    status, problem = await core_api.call("GET", "/v1/tenants/nobody/kek")
    assert (status, problem["right"]) == (403, "service")


async def test_a_third_live_credential_is_refused_until_one_is_revoked(core_api: CoreApi) -> None:
    _, second = await provision(core_api)

    status, problem = await provision(core_api)
    await core_api.call("POST", f"{PATH}/{second['id']}/revoke")

    assert (status, problem["type"]) == (409, "/problems/two-credentials-live")
    assert (await provision(core_api))[0] == 201


async def test_of_many_who_rotate_at_once_one_gets_the_second_credential(core_api: CoreApi) -> None:
    answers = await asyncio.gather(*(provision(core_api) for _ in range(6)))

    assert sorted(status for status, _ in answers) == [201] + [409] * 5


async def test_a_revoked_credential_is_refused_at_once_and_the_other_serves_on(core_api: CoreApi) -> None:
    _, made = await provision(core_api)
    headers = Credentials(made["client_id"], made["client_secret"]).headers
    assert (await who(core_api, headers))[0] == 200

    status, revoked = await core_api.call("POST", f"{PATH}/{made['id']}/revoke")

    assert status == 200
    assert revoked["revoked_at"] is not None
    assert (await who(core_api, headers))[0] == 401
    assert (await who(core_api, core_api.modules["dms_ingest"].headers))[0] == 200


async def test_the_last_credential_is_revoked_by_force_only(core_api: CoreApi) -> None:
    _, listed = await core_api.call("GET", PATH)
    path = f"{PATH}/{listed['items'][0]['id']}/revoke"

    status, problem = await core_api.call("POST", path)
    still = await who(core_api, core_api.modules["dms_ingest"].headers)
    forced, _ = await core_api.call("POST", path, params={"force": "true"})

    assert (status, problem["type"]) == (409, "/problems/last-credential")
    assert (still[0], forced) == (200, 200)
    assert (await who(core_api, core_api.modules["dms_ingest"].headers))[0] == 401


async def test_who_revokes_waits_for_another_who_does_and_leaves_the_last_credential(core_api: CoreApi) -> None:
    await provision(core_api)
    _, listed = await core_api.call("GET", PATH)
    first, second = (UUID(each["id"]) for each in listed["items"])
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")

    async with conn.transaction():
        await credentials.revoke(conn, "dms_ingest", first, force=False)
        other = asyncio.create_task(core_api.call("POST", f"{PATH}/{second}/revoke"))
        await waits_for_a_lock(conn)
    await conn.close()

    status, problem = await other
    assert (status, problem["type"]) == (409, "/problems/last-credential")


async def test_a_rotation_and_a_revocation_do_not_wait_for_each_other(core_api: CoreApi) -> None:
    _, listed = await core_api.call("GET", PATH)
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")

    async with conn.transaction():  # the two halves of a rotation with overlap
        await credentials.provision(conn, "dms_ingest")
        other = asyncio.create_task(core_api.call("POST", f"{PATH}/{listed['items'][0]['id']}/revoke"))
        await waits_for_a_lock(conn)
        await conn.execute("UPDATE module_credentials SET not_after = now() + interval '1 hour'")
    await conn.close()

    assert (await other)[0] == 200


async def test_a_credential_ends_with_its_time(core_api: CoreApi) -> None:
    headers = core_api.modules["dms_ingest"].headers

    await end_all(core_api, "now() + interval '1 minute'")
    before = await who(core_api, headers)
    await end_all(core_api, "now()")
    after = await who(core_api, headers)

    assert (before[0], after[0]) == (200, 401)


async def test_rotating_with_an_overlap_ends_the_older_credential_later(core_api: CoreApi) -> None:
    _, made = await provision(core_api, overlap_s=3600)

    _, listed = await core_api.call("GET", PATH)

    new, old = listed["items"]
    assert (new["id"], new["not_after"]) == (made["id"], None)
    left = datetime.fromisoformat(old["not_after"]) - datetime.now(UTC)
    assert timedelta(minutes=55) < left < timedelta(minutes=61)
    assert (await who(core_api, core_api.modules["dms_ingest"].headers))[0] == 200


async def test_an_overlap_of_nothing_ends_the_older_credential_now(core_api: CoreApi) -> None:
    await provision(core_api, overlap_s=0)

    assert (await who(core_api, core_api.modules["dms_ingest"].headers))[0] == 401
    assert (await provision(core_api))[0] == 201


async def test_a_credential_that_would_never_be_good_is_refused(core_api: CoreApi) -> None:
    status, problem = await provision(core_api, not_after="2020-01-01T00:00:00Z")

    assert (status, problem["type"]) == (422, "/problems/expiry-in-the-past")


async def test_a_credential_of_another_module_is_404(core_api: CoreApi) -> None:
    _, made = await provision(core_api)

    status, problem = await core_api.call("POST", f"/v1/modules/alerter/credentials/{made['id']}/revoke")

    assert (status, problem["type"]) == (404, "/problems/credential-not-found")


async def test_wrong_attempts_are_slowed_down_and_never_lock_the_right_secret_out(core_api: CoreApi) -> None:
    ours = core_api.modules["dms_ingest"]
    wrong = basic(ours.client_id, "nonsense")

    statuses = [(await who(core_api, wrong))[0] for _ in range(40)]

    assert statuses[:10] == [401] * 10
    assert statuses[-1] == 429
    assert (await who(core_api, ours.headers))[0] == 200


async def test_a_client_id_of_any_bytes_is_unknown(core_api: CoreApi) -> None:
    ours = core_api.modules["dms_ingest"]
    url = urlsplit(core_api.url)
    for client_id in [b"\xff\xfe", b"\xed\xa0\x80", "ü".encode(), b"", b"a" * 7000]:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(b"GET /v1/tenants/acme/kek HTTP/1.1\r\nHost: x\r\nX-Nexarch-Client-Id: " + client_id)
        writer.write(f"\r\nX-Nexarch-Client-Secret: {ours.client_secret}\r\n\r\n".encode())
        status_line = await reader.readline()
        writer.close()

        assert status_line == b"HTTP/1.1 401 Unauthorized\r\n", client_id


async def test_a_module_that_cannot_be_has_no_credentials(core_api: CoreApi) -> None:
    for module_id in ["%FF", "a%2fb", "A", "a" * 200, "%ED%A0%80", "dms%0A", "%00"]:
        for method, path in [("POST", "credentials"), ("GET", "credentials"), ("GET", "")]:
            url = f"/v1/modules/{module_id}/{path}".rstrip("/")
            status, problem = await core_api.call(method, url, **({"json": {}} if method == "POST" else {}))

            assert (status, problem["type"]) == (404, "/problems/module-not-found"), url
