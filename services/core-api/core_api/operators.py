"""Operators: who runs the platform. Each has one bearer token, of which only the SHA-256 is stored."""

from dataclasses import dataclass
from hmac import compare_digest
from uuid import UUID

import asyncpg

from core_api.secret_text import digest, is_well_formed
from nexarch.auth import Operator
from nexarch.db import Connection, fetch_optional
from nexarch.errors import Conflict, NotFound


class OperatorNameTaken(Conflict):
    """Another operator already has this name."""

    code = "operator-name-taken"
    title = "The name is in use"


class NoSuchOperator(NotFound):
    """No operator has this token."""

    code = "operator-not-found"
    title = "There is no such operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    id: UUID
    name: str
    token_sha256: bytes


async def add_operator(conn: Connection, name: str, token: str) -> None:
    """Add an operator with a token made by `new_operator_token`; `OperatorNameTaken`."""
    sql = "INSERT INTO operators (name, token_sha256) VALUES ($1, $2)"
    try:
        await conn.execute(sql, name, digest(token))
    except asyncpg.UniqueViolationError as error:
        raise OperatorNameTaken(f"There is an operator {name!r} already.") from error


async def any_operator(conn: Connection) -> bool:
    """Whether somebody may operate this platform."""
    return bool(await conn.fetchval("SELECT EXISTS (SELECT FROM operators WHERE disabled_at IS NULL)"))


async def find_operator(conn: Connection, token: str) -> Operator | None:
    """Whose token this is; None if nobody's."""
    return await find_operator_by_digest(conn, digest(token)) if is_well_formed(token) else None


async def find_operator_by_digest(conn: Connection, given: bytes) -> Operator | None:
    """Whose token has this SHA-256; None if nobody's."""
    sql = "SELECT id, name, token_sha256 FROM operators WHERE token_sha256 = $1 AND disabled_at IS NULL"
    known = await fetch_optional(conn, _Known, sql, given)
    if known is None or not compare_digest(known.token_sha256, given):
        return None
    await _mark_used(conn, known.id)
    return Operator(id=known.id, name=known.name)


async def _mark_used(conn: Connection, operator_id: UUID) -> None:
    """At most once a minute: a write with every request would make all requests of an operator take turns."""
    sql = """
        UPDATE operators
           SET last_used_at = now()
         WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
    """
    await conn.execute(sql, operator_id)
