"""User tokens: what is refused, and how often core-api is asked."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nexarch import user_tokens
from nexarch.auth import User
from nexarch.errors import Unauthorized, Unavailable
from nexarch.user_tokens import AUDIENCE, ISSUER, InvalidToken, TokenExpired, UserTokens

USER, TENANT = uuid4(), uuid4()


class Issuer:
    """Keys by id; answers as core-api's JWKS does and counts how often it was asked."""

    def __init__(self) -> None:
        self.keys = {"one": Ed25519PrivateKey.generate()}
        self.asked = 0
        self.away = False

    async def jwks(self) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise Unavailable("core-api does not answer.")
        keys = []
        for kid, key in self.keys.items():
            x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")
            keys.append({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "alg": "EdDSA", "use": "sig"})
        return {"keys": keys}

    def sign(self, kid: str = "one", *, header: dict[str, Any] | None = None, **changes: object) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(USER),
            "tenant": "acme",
            "tenant_id": str(TENANT),
            "role": "editor",
            "iat": now,
            "exp": now + 900,
            "jti": uuid4().hex,
        }
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        key = self.keys.get(kid, self.keys["one"])
        return jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": kid} | (header or {}))


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def tokens(issuer: Issuer) -> UserTokens:
    return UserTokens(issuer.jwks)


async def test_a_good_token_says_who_sent_it(issuer: Issuer, tokens: UserTokens) -> None:
    user = await tokens.verify(issuer.sign())

    assert user == User(id=USER, tenant_id=TENANT, tenant="acme", role="editor")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _unsigned(issuer: Issuer) -> str:
    return f"{_part({'alg': 'none', 'kid': 'one', 'typ': 'JWT'})}.{issuer.sign().split('.')[1]}."


def _hmac_with_the_public_key(issuer: Issuer) -> str:
    secret = issuer.keys["one"].public_key().public_bytes_raw()
    claims = jwt.decode(issuer.sign(), options={"verify_signature": False})
    return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": "one"})


def _of_a_stranger(issuer: Issuer) -> str:
    stranger = Issuer()
    return stranger.sign()


def _with_other_claims(issuer: Issuer) -> str:
    head, body, signature = issuer.sign().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    return f"{head}.{_part(claims | {'role': 'admin'})}.{signature}"


BAD_TOKENS: dict[str, Callable[[Issuer], str]] = {
    "empty": lambda issuer: "",
    "alg none": _unsigned,
    "HMAC with the public key": _hmac_with_the_public_key,
    "signed by a stranger": _of_a_stranger,
    "claims changed": _with_other_claims,
    "wrong audience": lambda issuer: issuer.sign(aud="others"),
    "wrong issuer": lambda issuer: issuer.sign(iss="others"),
    "issued in the future": lambda issuer: issuer.sign(iat=int(time.time()) + 60),
    "unknown key": lambda issuer: issuer.sign("two"),
    "key id is no text": lambda issuer: issuer.sign().replace(
        issuer.sign().split(".")[0], _part({"alg": "EdDSA", "kid": 7})
    ),
    "no expiry": lambda issuer: issuer.sign(exp=None),
    "no tenant": lambda issuer: issuer.sign(tenant=None),
    "unknown role": lambda issuer: issuer.sign(role="root"),
    "subject is no id": lambda issuer: issuer.sign(sub="me"),
    "one megabyte": lambda issuer: issuer.sign(jti="x" * 1_000_000),
    "not ASCII": lambda issuer: "ä.ö.ü",
    "deeply nested header": lambda issuer: base64.urlsafe_b64encode(b"[" * 2500).decode().rstrip("=") + ".e30.AA",
}


@pytest.mark.parametrize("name", BAD_TOKENS)
async def test_a_bad_token_is_refused_without_a_crash(name: str, issuer: Issuer, tokens: UserTokens) -> None:
    with pytest.raises(InvalidToken):
        await tokens.verify(BAD_TOKENS[name](issuer))


async def test_an_expired_token_is_told_apart(issuer: Issuer, tokens: UserTokens) -> None:
    now = int(time.time())

    with pytest.raises(TokenExpired):
        await tokens.verify(issuer.sign(iat=now - 1000, exp=now - 100))


async def test_the_keys_are_fetched_once_for_many_tokens(issuer: Issuer, tokens: UserTokens) -> None:
    for _ in range(5):
        await tokens.verify(issuer.sign())

    assert issuer.asked == 1


async def test_a_new_key_is_found_by_asking_again(
    issuer: Issuer, tokens: UserTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tokens, "_ASK_AGAIN_S", 0.0)
    await tokens.verify(issuer.sign())
    issuer.keys["two"] = Ed25519PrivateKey.generate()

    user = await tokens.verify(issuer.sign("two"))

    assert user.id == USER


async def test_invented_key_ids_do_not_make_us_ask_each_time(issuer: Issuer, tokens: UserTokens) -> None:
    await tokens.verify(issuer.sign())

    for number in range(20):
        with pytest.raises(Unauthorized):
            await tokens.verify(issuer.sign(f"invented-{number}"))

    assert issuer.asked == 1


async def test_known_keys_serve_on_while_core_api_is_away(issuer: Issuer, tokens: UserTokens) -> None:
    await tokens.verify(issuer.sign())
    issuer.away = True
    tokens.forget()

    user = await tokens.verify(issuer.sign())

    assert user.id == USER


async def test_without_any_key_core_api_being_away_is_not_the_tokens_fault(issuer: Issuer, tokens: UserTokens) -> None:
    issuer.away = True

    for _ in range(2):
        with pytest.raises(Unavailable):
            await tokens.verify(issuer.sign())


async def test_a_key_that_is_published_no_more_is_refused(
    issuer: Issuer, tokens: UserTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tokens, "_ASK_AGAIN_S", 0.0)
    issuer.keys["two"] = Ed25519PrivateKey.generate()
    token = issuer.sign("two")
    await tokens.verify(token)
    del issuer.keys["two"]
    tokens.forget()

    for _ in range(2):  # also once the other keys are here
        with pytest.raises(InvalidToken):
            await tokens.verify(token)


async def test_a_token_that_comes_again_is_verified_once(
    issuer: Issuer, tokens: UserTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issuer.sign()
    first = await tokens.verify(token)
    monkeypatch.setattr(jwt, "decode", None)

    assert await tokens.verify(token) == first


async def test_a_token_that_was_good_expires_all_the_same(
    issuer: Issuer, tokens: UserTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issuer.sign(exp=int(time.time()) - 1)
    await tokens.verify(token)  # the clocks may differ so much

    monkeypatch.setattr(user_tokens, "LEEWAY_S", 0)

    with pytest.raises(TokenExpired):
        await tokens.verify(token)


async def test_a_token_that_differs_in_one_character_is_verified_anew(issuer: Issuer, tokens: UserTokens) -> None:
    token = issuer.sign()
    await tokens.verify(token)
    head, body, signature = token.split(".")
    changed = f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"

    with pytest.raises(InvalidToken):
        await tokens.verify(changed)


async def test_of_too_many_tokens_the_oldest_are_verified_again(
    issuer: Issuer, tokens: UserTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tokens, "_MOST_REMEMBERED", 3)

    for _ in range(5):
        await tokens.verify(issuer.sign())

    assert len(tokens._verified) == 3


async def test_keys_that_change_while_core_api_answers_are_asked_for_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tokens, "_ASK_AGAIN_S", 0.0)
    issuer.keys["two"] = Ed25519PrivateKey.generate()
    token = issuer.sign("two")

    async def old_keys() -> dict[str, Any]:
        answer = await issuer.jwks()
        if issuer.keys.pop("two", None) is not None:  # withdrawn while the answer is on its way
            verifier.forget()
        return answer

    verifier = UserTokens(old_keys)
    await verifier.verify(token)

    with pytest.raises(InvalidToken):
        await verifier.verify(token)
