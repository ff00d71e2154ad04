"""The error tree: every error that this platform raises on purpose, by what a caller can do about it.

An error carries a code (the last part of its problem type, see docs/problems.md), an HTTP status, a sentence
for people and members for programs. It knows no HTTP server: `nexarch.problems` turns it into an answer.
"""

from http import HTTPStatus
from typing import ClassVar

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


class NexarchError(Exception):
    """Base of every error that this platform raises on purpose; never raised itself."""

    code: ClassVar[str]
    status: ClassVar[int]  # HTTPStatus lacks some of those that are in use
    title: ClassVar[str]
    again_s: ClassVar[int | None] = None  # the member `retry_after_s` where whoever raises it knows none better

    def __init__(self, detail: str, **members: Json) -> None:
        super().__init__(detail)
        self.detail = detail
        self.members = members if self.again_s is None else {"retry_after_s": self.again_s} | members


class Invalid(NexarchError):
    """The request is not well formed, or a value in it breaks a rule; the same request will fail again."""

    code = "invalid"
    status: ClassVar[int] = HTTPStatus.UNPROCESSABLE_ENTITY
    title = "The request breaks a rule"


class Unauthorized(NexarchError):
    """Nobody we know sent this: no credentials, wrong ones, or expired ones."""

    code = "unauthorized"
    status: ClassVar[int] = HTTPStatus.UNAUTHORIZED
    title = "Credentials are missing or wrong"


class Forbidden(NexarchError):
    """We know who sent this, and they may not; the detail names the missing right."""

    code = "forbidden"
    status: ClassVar[int] = HTTPStatus.FORBIDDEN
    title = "A right is missing"


class NotFound(NexarchError):
    """There is no such thing, or it belongs to another tenant."""

    code = "not-found"
    status: ClassVar[int] = HTTPStatus.NOT_FOUND
    title = "There is no such thing"


class Conflict(NexarchError):
    """The request is well formed, but the present state forbids it."""

    code = "conflict"
    status: ClassVar[int] = HTTPStatus.CONFLICT
    title = "The present state forbids it"


class PreconditionFailed(NexarchError):
    """What the caller read has changed since; read it again, then decide (RFC 9110, 13.1.1)."""

    code = "precondition-failed"
    status: ClassVar[int] = HTTPStatus.PRECONDITION_FAILED
    title = "It has changed meanwhile"


class TooLarge(NexarchError):
    """The body is larger than a limit; the members name the limit in bytes."""

    code = "too-large"
    status: ClassVar[int] = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    title = "The body is too large"


class UnsupportedType(NexarchError):
    """The content type is not on the allow-list."""

    code = "unsupported-type"
    status: ClassVar[int] = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    title = "This content type is not accepted"


class TooManyRequests(NexarchError):
    """Too many failures from one address; the member `retry_after_s` becomes a Retry-After header."""

    code = "too-many-requests"
    status: ClassVar[int] = HTTPStatus.TOO_MANY_REQUESTS
    title = "Too many attempts"


class Unavailable(NexarchError):
    """A dependency is away; the same request may succeed later (`retry_after_s` becomes Retry-After)."""

    code = "unavailable"
    status: ClassVar[int] = HTTPStatus.SERVICE_UNAVAILABLE
    title = "A dependency is away"
    again_s: ClassVar[int | None] = 5


class NotReady(Unavailable):
    """A readiness check has failed, and its detail is made to be shown to everybody at /readyz."""

    code = "not-ready"
    title = "The service is not ready"


class InsufficientStorage(NexarchError):
    """The disk is full; nothing was half written, and what was acknowledged is kept."""

    code = "insufficient-storage"
    status: ClassVar[int] = HTTPStatus.INSUFFICIENT_STORAGE
    title = "The disk is full"
    again_s: ClassVar[int | None] = 10
