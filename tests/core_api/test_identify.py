"""Modules learn whose operator token they were sent, from its digest."""

import hashlib

import pytest

from nexarch.db import connect
from support.services import CoreApi

pytestmark = pytest.mark.database

PATH = "/v1/operators/identify"


def digest(token: str) -> dict[str, str]:
    return {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}


async def test_a_module_learns_the_operator_of_a_token_and_nothing_of_an_unknown_one(core_api: CoreApi) -> None:
    async with core_api.client("dms_worker") as client:
        known = await client.operator(core_api.operator_token)
        unknown = await client.operator("nxo_nonsense")

    assert known is not None
    assert known.name
    assert unknown is None


async def test_a_disabled_operator_is_nobody(core_api: CoreApi) -> None:
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await conn.execute("UPDATE operators SET disabled_at = now()")
    await conn.close()

    status, problem = await core_api.as_module("dms_worker", "POST", PATH, json=digest(core_api.operator_token))

    assert (status, problem["type"]) == (404, "/problems/operator-not-found")


async def test_only_modules_may_ask_and_only_with_a_digest(core_api: CoreApi) -> None:
    as_operator, _ = await core_api.call("POST", PATH, json=digest(core_api.operator_token))
    with_token, _ = await core_api.as_module("dms_worker", "POST", PATH, json={"token_sha256": core_api.operator_token})

    assert (as_operator, with_token) == (403, 422)
