"""The tokens that people of a tenant carry: Ed25519 JWTs (RFC 7519, RFC 8037), verified without asking core-api.

core-api signs them and publishes its public keys (RFC 7517). A verifier keeps those keys for a few minutes and asks
again early when it meets a key it does not know, so that a rotation needs no restart anywhere.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from nexarch.auth import User
from nexarch.errors import Unauthorized, Unavailable

log = structlog.get_logger(__name__)

ISSUER = "nexarch"
AUDIENCE = "nexarch-users"
ALGORITHM = "EdDSA"  # never taken from the token
ROLES = ("viewer", "editor", "admin")
CLAIMS = ("iss", "aud", "sub", "tenant", "tenant_id", "role", "iat", "exp", "jti")
MAX_LENGTH = 4096  # characters; ours have about 600
LEEWAY_S = 5  # clocks of two hosts differ

_KEYS_TTL_S = 300.0
_MOST_REMEMBERED = 4096  # tokens, about 500 bytes each
_ASK_AGAIN_S = 10.0  # tokens with invented key ids cause at most one question in this time


class InvalidToken(Unauthorized):
    """The token was not signed by us for this use, or is not a token at all."""

    code = "invalid-token"
    title = "The token is not valid"


class TokenExpired(Unauthorized):
    """The token was ours, and its time is over: sign in again."""

    code = "token-expired"
    title = "The token has expired"


class UserTokens:
    """Verifies tokens with cached keys. `fetch_jwks` asks core-api; its `Unavailable` reaches the caller of `verify`
    only while there is no key to verify with.
    """

    def __init__(
        self,
        fetch_jwks: Callable[[], Awaitable[dict[str, Any]]],
        *,
        issuer: str = ISSUER,
        audience: str = AUDIENCE,
    ) -> None:
        self._fetch_jwks = fetch_jwks
        self._issuer = issuer
        self._audience = audience
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._good_until = 0.0  # monotonic seconds
        self._ask_again_at = 0.0
        self._failure: Unavailable | None = None
        self._forgotten = 0  # times
        self._lock = asyncio.Lock()
        # SHA-256 of tokens that the present keys verify, whose they are, and the Unix time at which they expire.
        self._verified: OrderedDict[bytes, tuple[User, float]] = OrderedDict()

    async def verify(self, token: str) -> User:
        """Return whose token it is; `InvalidToken` or `TokenExpired` (both `Unauthorized`) for any other string.

        A token comes with each of many requests: it is verified once for as long as the keys are kept.
        """
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        if time.monotonic() < self._good_until and (known := self._verified.get(digest)) is not None:
            user, expires_at = known
            if time.time() < expires_at:
                return user
        user, expires_at = await self._verify(token)
        self._verified[digest] = user, expires_at
        if len(self._verified) > _MOST_REMEMBERED:
            self._verified.popitem(last=False)
        return user

    async def _verify(self, token: str) -> tuple[User, float]:
        key = await self._key(_key_id(token))
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": list(CLAIMS)},
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired("The token has expired; sign in again.") from error
        except jwt.PyJWTError as error:
            raise InvalidToken("The token is not valid.") from error
        return _user(claims), float(claims["exp"])

    def forget(self) -> None:
        """Ask for the keys again at the next token: the channel `keys` said that they changed."""
        self._forgotten += 1
        self._good_until = 0.0

    async def _key(self, kid: str) -> Ed25519PublicKey:
        if time.monotonic() >= self._good_until or kid not in self._keys:
            async with self._lock:
                if time.monotonic() >= self._good_until or kid not in self._keys:
                    await self._refresh()
        if (key := self._keys.get(kid)) is not None:
            return key
        if self._failure is not None:  # it may be a new key of ours: nobody can say now
            raise self._failure
        raise InvalidToken("The token is not valid.")

    async def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._ask_again_at:
            return
        self._ask_again_at = now + _ASK_AGAIN_S
        forgotten = self._forgotten
        try:
            jwks = await self._fetch_jwks()
        except Unavailable as error:
            log.warning("the keys of user tokens cannot be fetched", reason=error.detail)
            self._failure = error
            return
        self._failure = None
        self._keys = read_jwks(jwks)
        self._verified.clear()
        if forgotten == self._forgotten:  # else they changed while core-api answered: these may be the old ones
            self._good_until = now + _KEYS_TTL_S


def read_jwks(jwks: dict[str, Any]) -> dict[str, Ed25519PublicKey]:
    """Read a JWK set: key id to key. Keys of another kind are left out, as RFC 7517 section 5 asks."""
    keys: dict[str, Ed25519PublicKey] = {}
    for jwk in jwks.get("keys", []):
        try:
            key = jwt.PyJWK.from_dict(jwk, algorithm=ALGORITHM).key
        except jwt.PyJWTError:
            continue
        if isinstance(key, Ed25519PublicKey) and isinstance(jwk.get("kid"), str):
            keys[jwk["kid"]] = key
    return keys


def _key_id(token: str) -> str:
    if len(token) > MAX_LENGTH:
        raise InvalidToken("The token is not valid.")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise InvalidToken("The token is not valid.") from error
    kid = header.get("kid")
    if not isinstance(kid, str) or header.get("alg") != ALGORITHM:
        raise InvalidToken("The token is not valid.")
    return kid


def _user(claims: dict[str, Any]) -> User:
    role, tenant = claims["role"], claims["tenant"]
    if role not in ROLES or not isinstance(tenant, str):
        raise InvalidToken("The token is not valid.")
    try:
        return User(id=UUID(claims["sub"]), tenant_id=UUID(claims["tenant_id"]), tenant=tenant, role=role)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidToken("The token is not valid.") from error
