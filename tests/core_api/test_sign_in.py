"""Signing in, and the tokens that come of it."""

import asyncio
import time
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from core_api.app import create_app
from core_api.keys import PASSWORDS
from core_api.passwords import Passwords, SignInBusy
from core_api.settings import Settings
from nexarch.routing import SMALL_BODY
from nexarch.user_tokens import AUDIENCE, CLAIMS, ISSUER, UserTokens
from support.services import CoreApi

pytestmark = pytest.mark.database


@pytest.fixture
def passwords() -> Passwords:
    """Those that people get."""
    return Passwords()


async def sign_in(core_api: CoreApi, tenant: str, email: str, password: str) -> tuple[int, Any]:
    body = {"tenant": tenant, "email": email, "password": password}
    return await core_api.call("POST", "/v1/auth/token", headers={}, json=body)


def tokens(core_api: CoreApi) -> UserTokens:
    """A verifier as other services have it: with the published keys and nothing else."""

    async def jwks() -> Any:  # noqa: ANN401 - JSON
        return (await core_api.call("GET", "/.well-known/jwks.json", headers={}))[1]

    return UserTokens(jwks)


async def test_a_token_lives_fifteen_minutes_and_says_who_carries_it(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant(role="editor")

    status, answer = await sign_in(core_api, tenant.slug, tenant.email, tenant.password)

    assert (status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 900)
    claims = jwt.decode(answer["access_token"], options={"verify_signature": False})
    header = jwt.get_unverified_header(answer["access_token"])
    assert set(claims) == set(CLAIMS)
    assert (claims["iss"], claims["aud"], claims["sub"]) == (ISSUER, AUDIENCE, str(tenant.user_id))
    assert (claims["tenant"], claims["tenant_id"], claims["role"]) == (tenant.slug, str(tenant.id), "editor")
    assert claims["exp"] - claims["iat"] == 900
    assert (header["alg"], header["typ"]) == ("EdDSA", "JWT")
    assert (await tokens(core_api).verify(answer["access_token"])).id == tenant.user_id


async def test_an_address_and_a_password_are_the_same_however_they_are_typed(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.add_user(tenant.slug, email="m\u00fcller@example.org", role="viewer", password="Sch\u00f6ne Kennung")

    status, _ = await sign_in(core_api, tenant.slug, "MU\u0308LLER@example.org", "Scho\u0308ne Kennung")

    assert status == 200


async def test_nobody_is_told_which_part_was_wrong(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    attempts = [
        (tenant.slug, tenant.email, "not the password"),
        (tenant.slug, tenant.email, tenant.password + "\n"),
        (tenant.slug, "nobody@example.org", tenant.password),
        ("nobody", tenant.email, tenant.password),
        (tenant.slug.upper(), tenant.email, tenant.password),
        ("../x", tenant.email, tenant.password),
        (tenant.slug, tenant.email + "\0", tenant.password),
        (tenant.slug + "\0", tenant.email, tenant.password),
    ]

    answers = [await sign_in(core_api, *attempt) for attempt in attempts]

    for status, problem in answers:
        assert (status, problem["type"]) == (401, "/problems/wrong-password")
    assert len({problem["detail"] for _, problem in answers}) == 1


async def test_an_unknown_account_takes_as_long_as_a_wrong_password(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.token(tenant)  # opens the pool

    async def work(slug: str, email: str) -> float:
        """Seconds of processor time, which is steadier than the clock; the service runs in this process."""
        started = time.process_time()
        for _ in range(3):
            await sign_in(core_api, slug, email, "not the password")
        return time.process_time() - started

    wrong = await work(tenant.slug, tenant.email)

    # Without the hash an answer takes less than a tenth of that.
    assert await work(tenant.slug, "nobody@example.org") > wrong / 3
    assert await work("nobody", tenant.email) > wrong / 3


async def test_too_many_wrong_passwords_are_refused_before_they_are_checked(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.add_user(tenant.slug, email="other@example.org", role="viewer")

    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < 40:  # one failure is forgotten every six seconds
        statuses.append((await sign_in(core_api, tenant.slug, tenant.email, "not the password"))[0])
    status, problem = await sign_in(core_api, tenant.slug, tenant.email.upper(), tenant.password)

    assert statuses[:10] == [401] * 10
    assert statuses[-1] == 429
    assert (status, problem["type"]) == (429, "/problems/too-many-requests")
    assert problem["retry_after_s"] >= 1
    assert (await sign_in(core_api, tenant.slug, "other@example.org", tenant.password))[0] == 200


@pytest.mark.parametrize(("trusted", "status_of_another"), [("127.0.0.0/8", 200), ("", 429)])
async def test_a_proxy_that_is_trusted_says_whose_wrong_passwords_they_were(
    core_api: CoreApi, passwords: Passwords, trusted: str, status_of_another: int
) -> None:
    tenant = await core_api.create_tenant()
    right = {"tenant": tenant.slug, "email": tenant.email, "password": tenant.password}
    settings = Settings(**core_api.settings.model_dump() | {"port": 0, "trusted_proxies": trusted})
    async with TestServer(create_app(settings, passwords)) as server, ClientSession(server.make_url("/")) as proxy:

        async def sign_in_from(address: str, **changes: str) -> int:
            # What a client claims itself stands to the left of what the proxy says.
            headers = {"X-Forwarded-For": f"198.51.100.7, {address}"}
            async with proxy.post("/v1/auth/token", headers=headers, json=right | changes) as answer:
                return answer.status

        guesses: list[int] = []
        while 429 not in guesses and len(guesses) < 40:
            guesses.append(await sign_in_from("203.0.113.9", password="not the password"))

        assert guesses[-1] == 429
        assert await sign_in_from("203.0.113.9") == 429
        assert await sign_in_from("203.0.113.10") == status_of_another


async def test_more_sign_ins_than_can_wait_are_told_to_come_back() -> None:
    passwords = Passwords(at_once=1, waiting=1)
    stored = await passwords.hash("a password")

    results = await asyncio.gather(*(passwords.verify(stored, "a password") for _ in range(5)), return_exceptions=True)

    assert [result for result in results if result is True] == [True, True]
    assert sum(isinstance(result, SignInBusy) for result in results) == 3
    assert await passwords.verify(stored, "a password")


async def test_other_requests_are_answered_while_passwords_are_checked(core_api: CoreApi) -> None:
    stored = await core_api.app[PASSWORDS].hash("a password")
    checks = [asyncio.create_task(core_api.app[PASSWORDS].verify(stored, "a password")) for _ in range(6)]

    status, _ = await core_api.call("GET", "/livez")

    assert status == 200
    assert not all(check.done() for check in checks)
    assert await asyncio.gather(*checks) == [True] * 6


async def test_after_a_rotation_new_tokens_have_a_new_key_and_old_ones_stay_good(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    old = await core_api.token(tenant)

    status, rotated = await core_api.call("POST", "/v1/keys/rotate")

    new = await core_api.token(tenant)
    assert status == 200
    assert jwt.get_unverified_header(old)["kid"] != rotated["kid"]
    assert jwt.get_unverified_header(new)["kid"] == rotated["kid"]
    verifier = tokens(core_api)
    for token in (old, new):
        assert (await verifier.verify(token)).id == tenant.user_id


async def test_published_keys_are_public_and_may_be_kept_for_minutes(core_api: CoreApi) -> None:
    await core_api.call("POST", "/v1/keys/rotate")

    async with core_api.session.get(f"{core_api.url}/.well-known/jwks.json") as response:
        jwks = await response.json()

    assert response.headers["Cache-Control"] == "public, max-age=300"
    assert len(jwks["keys"]) == 2
    for key in jwks["keys"]:
        assert set(key) == {"kty", "crv", "use", "alg", "kid", "x"}  # no `d`
        assert (key["kty"], key["crv"], key["alg"]) == ("OKP", "Ed25519", "EdDSA")


async def test_a_token_answer_is_not_to_be_kept_by_caches(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    body = {"tenant": tenant.slug, "email": tenant.email, "password": tenant.password}

    async with core_api.session.post(f"{core_api.url}/v1/auth/token", json=body) as response:
        assert response.headers["Cache-Control"] == "no-store"


async def test_strangers_may_not_send_more_than_credentials(core_api: CoreApi) -> None:
    url, headers = f"{core_api.url}/v1/auth/token", {"Content-Type": "application/json"}

    async with core_api.session.post(url, headers=headers, data=b" " * (SMALL_BODY + 1)) as response:
        problem = await response.json()

    assert (response.status, problem["type"]) == (401, "/problems/unauthorized")
    assert "too large" in problem["detail"]
