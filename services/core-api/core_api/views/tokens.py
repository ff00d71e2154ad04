"""HTTP of users' tokens and of the keys that sign them."""

import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, Field, SecretStr

from core_api import signing_keys
from core_api.keys import (
    MASTER_KEY,
    PASSWORDS,
    REGISTRY,
    SETTINGS,
    SIGN_IN_FAILURES,
    TENANT_DATABASES,
    TOKEN_ISSUER,
)
from core_api.sign_in import WrongPassword, check_password
from core_api.views.authentication import address
from core_api.views.bodies import Body
from nexarch.routing import json_response

# Verifiers may keep the keys this long; they ask again at once for a key that they do not know.
_KEYS_MAX_AGE_S = 300


class SignIn(Body):
    """Who signs in."""

    tenant: Annotated[str, Field(max_length=100, examples=["acme"])]
    email: Annotated[str, Field(max_length=254, examples=["ada@example.org"])]
    password: Annotated[SecretStr, Field(max_length=1000)]


class Token(BaseModel):
    """A token for `Authorization: Bearer`, and its life in seconds."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a scheme
    expires_in: int


class JsonWebKey(BaseModel):
    """An Ed25519 public key (RFC 8037)."""

    kty: str
    crv: str
    use: str
    alg: str
    kid: str
    x: str


class JsonWebKeys(BaseModel):
    """A JWK set (RFC 7517)."""

    keys: list[JsonWebKey]


class SigningKeyAnswer(BaseModel):
    """The key that signs from now on."""

    kid: str
    state: str
    created_at: datetime


async def create(request: web.Request, body: SignIn) -> web.Response:
    """`POST /v1/auth/token`: a token for tenant, address and password."""
    app = request.app
    account_name = f"{body.tenant}/{unicodedata.normalize('NFC', body.email).lower()}"
    app[SIGN_IN_FAILURES].check(address(request), account_name)
    try:
        tenant, account = await check_password(
            app[REGISTRY],
            app[TENANT_DATABASES],
            app[PASSWORDS],
            slug=body.tenant,
            email=body.email,
            password=body.password.get_secret_value(),
        )
    except WrongPassword:
        app[SIGN_IN_FAILURES].failed(address(request), account_name)
        raise
    async with app[REGISTRY].acquire() as conn:
        key = await signing_keys.active_key(conn, app[MASTER_KEY])
    issuer = app[TOKEN_ISSUER]
    token = issuer.issue(key, tenant, account, datetime.now(UTC))
    answer = Token(access_token=token, expires_in=issuer.ttl_s)
    return json_response(answer, headers={"Cache-Control": "no-store"})


async def keys(request: web.Request) -> web.Response:
    """`GET /.well-known/jwks.json`: the public keys of users' tokens."""
    async with request.app[REGISTRY].acquire() as conn:
        published = await signing_keys.published_keys(conn)
    answer = JsonWebKeys(keys=[JsonWebKey.model_validate(key.as_jwk()) for key in published])
    return json_response(answer, headers={"Cache-Control": f"public, max-age={_KEYS_MAX_AGE_S}"})


async def rotate(request: web.Request) -> web.Response:
    """`POST /v1/keys/rotate`: sign with a new key; tokens of the one before stay good until they expire."""
    app = request.app
    async with app[REGISTRY].acquire() as conn:
        key = await signing_keys.rotate_keys(conn, app[MASTER_KEY], app[SETTINGS].token_ttl_s)
    return json_response(SigningKeyAnswer.model_validate(key, from_attributes=True))
