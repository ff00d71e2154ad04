"""Users of one tenant. They live in the tenant's own database; every connection here is to that, as its owner."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, Invalid, NotFound


class EmailTaken(Conflict):
    """Another user of this tenant already has this address, in whatever case."""

    code = "email-taken"
    title = "The e-mail address is in use"


class NoSuchUser(NotFound):
    """The tenant has no user of this id."""

    code = "user-not-found"
    title = "There is no such user"


class InvalidUser(Invalid):
    """The address or the name is not one that can be stored."""

    code = "invalid-user"
    title = "The user's address or name is not valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One row of `users`, without the password's hash."""

    id: UUID
    email: str
    display_name: str
    role: str  # viewer, editor or admin
    created_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What signing in needs of a user."""

    id: UUID
    role: str
    password_hash: str


async def create_user(conn: Connection, *, email: str, display_name: str, role: str, password_hash: str) -> User:
    """Add a user; `EmailTaken`, `InvalidUser`."""
    sql = """
        INSERT INTO users (email, display_name, role, password_hash)
        VALUES (lower(normalize($1, NFC)), normalize($2, NFC), $3, $4)
        RETURNING id, email, display_name, role, created_at, disabled_at
    """
    try:
        return await fetch_one(conn, User, sql, email, display_name, role, password_hash)
    except asyncpg.UniqueViolationError as error:
        raise EmailTaken(f"{email!r} is in use in this tenant.", email=email) from error
    except asyncpg.CheckViolationError as error:
        raise InvalidUser("The user's address or name is not one that can be stored.") from error


async def list_users(conn: Connection, *, after: UUID, limit: int) -> list[User]:
    """The next `limit` users in the order of their ids, which is that of their creation."""
    sql = """
        SELECT id, email, display_name, role, created_at, disabled_at
          FROM users
         WHERE id > $1
         ORDER BY id
         LIMIT $2
    """
    return await fetch_all(conn, User, sql, after, limit)


async def disable_user(conn: Connection, user_id: UUID) -> User:
    """Let a user get no more tokens; twice is fine. `NoSuchUser`."""
    sql = """
        UPDATE users
           SET disabled_at = coalesce(disabled_at, now())
         WHERE id = $1
        RETURNING id, email, display_name, role, created_at, disabled_at
    """
    user = await fetch_optional(conn, User, sql, user_id)
    if user is None:
        raise NoSuchUser("The tenant has no such user.")
    return user


async def find_account(conn: Connection, email: str) -> Account | None:
    """Who signs in with this address; None for nobody and for a disabled user."""
    sql = """
        SELECT id, role, password_hash
          FROM users
         WHERE email = lower(normalize($1, NFC)) AND disabled_at IS NULL
    """
    return await fetch_optional(conn, Account, sql, email)
