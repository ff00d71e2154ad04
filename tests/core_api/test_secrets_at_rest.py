"""A copy of the databases, the log or an answer gives nobody a secret."""

import base64
import logging
from collections.abc import Iterator

import pytest

from nexarch.db import Connection, connect
from nexarch.tenant_database import database_dsn
from support.services import CoreApi

pytestmark = pytest.mark.database


def disguises(secret: str | bytes) -> Iterator[str]:
    """A secret as it could stand in a dump: plain, hex and base64 at each of three offsets."""
    raw = secret.encode() if isinstance(secret, str) else secret
    if isinstance(secret, str):
        yield secret
    yield raw.hex()
    for offset in range(3):
        yield base64.b64encode(raw[offset : offset + (len(raw) - offset) // 3 * 3]).decode()


async def dump(conn: Connection) -> str:
    """Every row of every table of ours, as text."""
    names = await conn.fetch("SELECT format('%I', tablename) AS name FROM pg_tables WHERE schemaname = 'public'")
    rows = [
        record["line"]
        for name in names
        for record in await conn.fetch(f"SELECT row::text AS line FROM {name['name']} AS row")
    ]
    return "\n".join(rows)


async def test_no_secret_stands_in_the_databases_nor_in_the_log(
    core_api: CoreApi, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tenant = await core_api.create_tenant()
    token = await core_api.token(tenant)
    _, made = await core_api.call("POST", "/v1/modules/alerter/credentials", json={})
    _, address = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/database")
    _, key = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/kek")
    secrets: list[str | bytes] = [
        core_api.operator_token,
        core_api.modules["dms_ingest"].client_secret,
        made["client_secret"],
        address["password"],
        tenant.password,
        token,
        base64.b64decode(key["tenant_kek_base64"]),
        base64.b64decode(core_api.settings.master_key.get_secret_value()),
    ]
    registry = core_api.settings.registry_dsn.get_secret_value()

    text = caplog.text + "".join(capsys.readouterr())
    for dsn in (registry, database_dsn(registry, f"tenant_{tenant.slug}")):
        conn = await connect(dsn, application_name="tests")
        text += await dump(conn)
        await conn.close()

    assert tenant.email in text  # the dump is not empty
    for secret in secrets:
        for disguise in disguises(secret):
            assert disguise not in text
