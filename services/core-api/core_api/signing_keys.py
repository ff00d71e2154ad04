"""The keys that sign user tokens: Ed25519, one active, older ones published until their last token has expired."""

import base64
import secrets
from dataclasses import dataclass
from datetime import datetime

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core_api.changes import announce_change
from core_api.master_key import MasterKey
from nexarch import channels
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, Unavailable
from nexarch.user_tokens import ALGORITHM, LEEWAY_S

PURPOSE = "nexarch/signing-key/1"


class RotationRunning(Conflict):
    """Somebody else rotated the signing key at the same moment."""

    code = "rotation-running"
    title = "The signing key is being rotated"


class NoSigningKey(Unavailable):
    """There is no key to sign with: bootstrap has not run."""

    code = "no-signing-key"
    title = "There is no signing key yet"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The active key, open."""

    kid: str
    private_key: Ed25519PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """What is published of a key: `public_key` is 32 bytes (RFC 8032)."""

    kid: str
    public_key: bytes
    state: str  # active or retiring
    created_at: datetime
    retire_at: datetime | None

    def as_jwk(self) -> dict[str, str]:
        """RFC 8037, section 2."""
        x = base64.urlsafe_b64encode(self.public_key).decode().rstrip("=")
        return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": ALGORITHM, "kid": self.kid, "x": x}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sealed:
    kid: str
    sealed_private_key: bytes


async def rotate_keys(conn: Connection, master: MasterKey, token_ttl_s: int) -> PublicKey:
    """Sign with a new key from now on; the one before is published until its last token has expired.

    Also makes the first key. Of two at once one gets `RotationRunning`.
    """
    try:
        async with conn.transaction():
            await _remove_expired(conn)
            await _retire_active(conn, token_ttl_s + LEEWAY_S)
            key = await _add_key(conn, master)
            await announce_change(conn, channels.KEYS)
    except asyncpg.UniqueViolationError as error:
        raise RotationRunning("Somebody else rotated the signing key at this moment.") from error
    return key


async def active_key(conn: Connection, master: MasterKey) -> SigningKey:
    """The key that signs; `NoSigningKey` before bootstrap."""
    sql = "SELECT kid, sealed_private_key FROM signing_keys WHERE state = 'active'"
    sealed = await fetch_optional(conn, _Sealed, sql)
    if sealed is None:
        raise NoSigningKey("There is no signing key yet: run `nexarch bootstrap`.")
    private = master.open(sealed.sealed_private_key, PURPOSE, sealed.kid.encode())
    return SigningKey(sealed.kid, Ed25519PrivateKey.from_private_bytes(private))


async def published_keys(conn: Connection) -> list[PublicKey]:
    """The keys whose tokens may still be good, newest first."""
    sql = """
        SELECT kid, public_key, state, created_at, retire_at
          FROM signing_keys
         WHERE state = 'active' OR retire_at > now()
         ORDER BY created_at DESC, kid
    """
    return await fetch_all(conn, PublicKey, sql)


async def _remove_expired(conn: Connection) -> None:
    await conn.execute("DELETE FROM signing_keys WHERE state = 'retiring' AND retire_at <= now()")


async def _retire_active(conn: Connection, for_s: int) -> None:
    sql = """
        UPDATE signing_keys
           SET state = 'retiring', retire_at = now() + make_interval(secs => $1)
         WHERE state = 'active'
    """
    await conn.execute(sql, for_s)


async def _add_key(conn: Connection, master: MasterKey) -> PublicKey:
    sql = """
        INSERT INTO signing_keys (kid, public_key, sealed_private_key)
        VALUES ($1, $2, $3)
        RETURNING kid, public_key, state, created_at, retire_at
    """
    kid = secrets.token_hex(8)
    private_key = Ed25519PrivateKey.generate()
    sealed = master.seal(private_key.private_bytes_raw(), PURPOSE, kid.encode())
    return await fetch_one(conn, PublicKey, sql, kid, private_key.public_key().public_bytes_raw(), sealed)
