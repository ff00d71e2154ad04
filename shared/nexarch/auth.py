"""Who sent a request, and what they may do.

Each service says how it knows people (`Authenticator`); each route says whom it serves (`Access`). A route without
`Access.PUBLIC` or `Access.SIGN_IN` is never reached without a principal, one with `Access.INTERNAL` only where the
service has no listener of its own for such routes.
"""

import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Flag, auto
from uuid import UUID

from aiohttp import web

from nexarch.errors import Forbidden, TooManyRequests, Unauthorized


class Access(Flag):
    """Whom a route serves; a user's role includes the roles below it."""

    PUBLIC = auto()
    SIGN_IN = auto()  # the body holds the credentials: one that cannot be read is as good as none
    # Health, metrics, documentation, public keys: no secret, and yet no business of strangers. Open where only the
    # platform's own machines come; to whoever has credentials on a published listener, see `internal_port`.
    INTERNAL = auto()
    OPERATOR = auto()
    SERVICE = auto()
    VIEWER = auto()
    EDITOR = auto()
    ADMIN = auto()


OPEN = Access.PUBLIC | Access.SIGN_IN


@dataclass(frozen=True, slots=True)
class Operator:
    """Someone who runs the platform."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class Service:
    """A module, known by one of its credentials."""

    module_id: str
    client_id: str


@dataclass(frozen=True, slots=True)
class User:
    """A person of one tenant, known by a token that core-api signed."""

    id: UUID
    tenant_id: UUID
    tenant: str  # slug
    role: str  # viewer, editor or admin


Principal = Operator | Service | User
# Returns None where the request carries no credentials of its kind; raises Unauthorized for wrong ones.
Authenticator = Callable[[web.Request], Awaitable[Principal | None]]

PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", object)  # type: ignore[arg-type]


def require(principal: Principal | None, access: Access) -> None:
    """Let the principal pass, or raise `Unauthorized` (nobody) or `Forbidden` (the right is named)."""
    if access & OPEN:
        return
    if principal is None:
        raise Unauthorized("Send a bearer token or service credentials.")
    if access & Access.INTERNAL:
        return
    if not _rights(principal) & access:
        wanted = " or ".join(sorted(str(right.name).lower() for right in access))
        raise Forbidden(f"This call needs the right: {wanted}.", right=wanted)


def _rights(principal: Principal) -> Access:
    match principal:
        case Operator():
            return Access.OPERATOR
        case Service():
            return Access.SERVICE
        case User(role="admin"):
            return Access.VIEWER | Access.EDITOR | Access.ADMIN
        case User(role="editor"):
            return Access.VIEWER | Access.EDITOR
        case User():
            return Access.VIEWER


def bearer_token(request: web.Request) -> str | None:
    """The token of `Authorization: Bearer`, or None."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token else None


def is_operator_token(token: str) -> bool:
    """Whether a bearer token has the form of an operator's; says nothing of whether it is known."""
    return token.startswith("nxo_")


def service_credentials(request: web.Request) -> tuple[str, str] | None:
    """Client id and secret from the two headers or from HTTP Basic (RFC 7617); None if neither is there."""
    client_id = request.headers.get("X-Nexarch-Client-Id")
    secret = request.headers.get("X-Nexarch-Client-Secret")
    if client_id is not None and secret is not None:
        return client_id, secret
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client_id, colon, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (ValueError, binascii.Error) as error:
        raise Unauthorized("The Basic credentials are not base64 of id:secret.") from error
    return (client_id, secret) if colon else None


class FailureLimiter:
    """Slows down whoever keeps failing, by (address, client id), and never whoever is right.

    Only failures count and only failures are refused: a correct secret passes whatever others sent under its id,
    so nobody can lock a client out. Memory is bounded: the oldest of `max_keys` is forgotten first.
    """

    def __init__(self, *, failures: int = 10, per_s: float = 60.0, max_keys: int = 10_000) -> None:
        self._failures = failures
        self._per_s = per_s
        self._max_keys = max_keys
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def failed(self, address: str, client: str) -> None:
        """Count a failure; `TooManyRequests` once there were more than allowed."""
        now = time.monotonic()
        key = (address, client[:200])
        level = self._level(key, now) + 1
        self._buckets.pop(key, None)
        self._buckets[key] = (level, now)
        if len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        self._refuse_above(self._failures, level)

    def check(self, address: str, client: str) -> None:
        """`TooManyRequests` if one more failure would be: for work too dear to be done before it is refused.

        This refuses who is right too, but only from the address that kept failing.
        """
        self._refuse_above(self._failures - 1, self._level((address, client[:200]), time.monotonic()))

    def _level(self, key: tuple[str, str], now: float) -> float:
        """How many failures still count: they are forgotten one by one, at the allowed rate."""
        level, since = self._buckets.get(key, (0.0, now))
        return max(0.0, level - (now - since) * self._failures / self._per_s)

    def _refuse_above(self, limit: float, level: float) -> None:
        if level > limit:
            wait_s = round((level - limit) * self._per_s / self._failures) + 1
            raise TooManyRequests("Too many wrong credentials from this address.", retry_after_s=wait_s)
