"""Modules' credentials: a client id and a secret of which only the SHA-256 is stored.

Two may live at once, so that one is rotated without a gap: provision the second, tell the module, revoke the first
(or let it end by itself, see `overlap_s`).
"""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from hmac import compare_digest
from uuid import UUID

import asyncpg

from core_api.changes import announce_change
from core_api.modules import NoSuchModule
from core_api.secret_text import digest, is_well_formed, new_module_secret
from nexarch import channels
from nexarch.auth import Service
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, Invalid, NotFound

_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")  # as the table has it

# Compared with what an unknown client sends, so that it takes the same work; no secret has this digest.
_NOBODY = digest("nobody")


class NoSuchCredential(NotFound):
    """The module has no credential of this id."""

    code = "credential-not-found"
    title = "There is no such credential"


class TwoCredentialsLive(Conflict):
    """The module has two live credentials already; revoke one first."""

    code = "two-credentials-live"
    title = "The module has two live credentials"


class LastCredential(Conflict):
    """Without this credential the module is locked out; revoke it with `force`."""

    code = "last-credential"
    title = "This is the module's last credential"


class ExpiryInThePast(Invalid):
    """A credential cannot end before it begins."""

    code = "expiry-in-the-past"
    title = "The credential would never be good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One row of `module_credentials`, without the digest of its secret."""

    id: UUID
    module_id: str
    client_id: str
    created_at: datetime
    not_after: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    module_id: str
    secret_sha256: bytes


def new_client_id(module_id: str) -> str:
    """A client id that says whose it is."""
    return f"{module_id}-{secrets.token_hex(4)}"


async def provision(
    conn: Connection, module_id: str, *, not_after: datetime | None = None, overlap_s: int | None = None
) -> tuple[Credential, str]:
    """Make a credential; returns it with its secret, which nobody can read again.

    With `overlap_s` the others end that many seconds from now, unless they end sooner.
    `NoSuchModule`, `TwoCredentialsLive`, `ExpiryInThePast`.
    """
    client_id = new_client_id(module_id)
    secret = new_module_secret(client_id)
    async with conn.transaction():
        credential = await add_credential(conn, module_id, client_id, secret, not_after)
        if overlap_s is not None:
            await _end_others(conn, credential, overlap_s)
    return credential, secret


async def add_credential(
    conn: Connection, module_id: str, client_id: str, secret: str, not_after: datetime | None = None
) -> Credential:
    """Store a credential whose secret `new_module_secret` made; errors as in `provision`."""
    sql = """
        INSERT INTO module_credentials (module_id, client_id, secret_sha256, not_after)
        VALUES ($1, $2, $3, $4)
        RETURNING id, module_id, client_id, created_at, not_after, revoked_at
    """
    try:
        async with conn.transaction():
            credential = await fetch_one(conn, Credential, sql, module_id, client_id, digest(secret), not_after)
            await announce_change(conn, channels.MODULES, module_id)
    except asyncpg.ForeignKeyViolationError as error:
        raise NoSuchModule(f"There is no module {module_id!r}.", module=module_id) from error
    except asyncpg.CheckViolationError as error:
        if error.constraint_name == "module_credentials_two_live":
            raise TwoCredentialsLive("The module has two live credentials; revoke one first.") from error
        if error.constraint_name == "module_credentials_expiry_after_creation":
            raise ExpiryInThePast("`not_after` must lie in the future.") from error
        raise
    return credential


async def list_credentials(conn: Connection, module_id: str) -> list[Credential]:
    """All credentials that a module ever had, newest first; few, so they are not paged."""
    sql = """
        SELECT id, module_id, client_id, created_at, not_after, revoked_at
          FROM module_credentials
         WHERE module_id = $1
         ORDER BY id DESC
         LIMIT 1000
    """
    return await fetch_all(conn, Credential, sql, module_id)


async def revoke(conn: Connection, module_id: str, credential_id: UUID, *, force: bool) -> Credential:
    """End a credential at once; twice is fine. `NoSuchCredential`, and `LastCredential` without `force`."""
    async with conn.transaction():
        await _take_turn(conn, module_id)
        credential = await _revoke(conn, module_id, credential_id)
        if credential is None:
            raise NoSuchCredential("The module has no such credential.")
        if not force and not await any_live(conn, module_id):
            raise LastCredential("The module would be locked out; revoke with `force` if that is meant.")
        await announce_change(conn, channels.MODULES, module_id)
    return credential


async def any_live(conn: Connection, module_id: str) -> bool:
    """Whether the module can sign in with anything."""
    sql = """
        SELECT EXISTS (SELECT
                         FROM module_credentials
                        WHERE module_id = $1 AND revoked_at IS NULL AND (not_after IS NULL OR not_after > now()))
    """
    return bool(await conn.fetchval(sql, module_id))


async def is_known(conn: Connection, client_id: str) -> bool:
    """Whether a credential, live or not, has this client id."""
    sql = "SELECT EXISTS (SELECT FROM module_credentials WHERE client_id = $1)"
    return bool(await conn.fetchval(sql, client_id))


async def find_service(conn: Connection, client_id: str, secret: str) -> Service | None:
    """Which module this is; None for an unknown client, and, with the same work, for a wrong secret."""
    sql = """
        SELECT module_id, secret_sha256
          FROM module_credentials
         WHERE client_id = $1 AND revoked_at IS NULL AND (not_after IS NULL OR not_after > now())
    """
    if not is_well_formed(secret) or _CLIENT_ID.fullmatch(client_id) is None:
        return None
    known = await fetch_optional(conn, _Known, sql, client_id)
    is_right = compare_digest(_NOBODY if known is None else known.secret_sha256, digest(secret))
    if known is None or not is_right:
        return None
    return Service(module_id=known.module_id, client_id=client_id)


async def _end_others(conn: Connection, credential: Credential, overlap_s: int) -> None:
    sql = """
        UPDATE module_credentials
           SET not_after = greatest(now() + make_interval(secs => $3), created_at + interval '1 microsecond')
         WHERE module_id = $1 AND id <> $2 AND revoked_at IS NULL
           AND (not_after IS NULL OR not_after > now() + make_interval(secs => $3))
    """
    await conn.execute(sql, credential.module_id, credential.id, overlap_s)


async def _take_turn(conn: Connection, module_id: str) -> None:
    """Who changes a module's credentials locks the module first, as the table's trigger does when one is added.

    So two who revoke cannot each take the other's credential for the last one, nor can a rotation and a revocation
    wait for each other.
    """
    await conn.execute("SELECT FROM modules WHERE id = $1 FOR NO KEY UPDATE", module_id)


async def _revoke(conn: Connection, module_id: str, credential_id: UUID) -> Credential | None:
    sql = """
        UPDATE module_credentials
           SET revoked_at = coalesce(revoked_at, now())
         WHERE module_id = $1 AND id = $2
        RETURNING id, module_id, client_id, created_at, not_after, revoked_at
    """
    return await fetch_optional(conn, Credential, sql, module_id, credential_id)
