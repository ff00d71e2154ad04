"""Errors as `application/problem+json` (RFC 9457); the only module that knows that form.

docs/problems.md lists every type.
"""

from http import HTTPStatus
from typing import NoReturn

import asyncpg
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from nexarch.db import AWAY, is_without_address
from nexarch.errors import Invalid, Json, NexarchError, TooLarge, Unavailable, UnsupportedType

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)


class InvalidBody(Invalid):
    """A body, query or path value does not fit its model; `errors` points at each place (RFC 6901)."""

    code = "invalid-body"
    title = "The request does not fit its description"


class DatabaseAway(Unavailable):
    """Postgres does not answer, or takes no more connections."""

    code = "database-away"
    title = "The database does not answer"


class DatabaseBusy(Unavailable):
    """Others held what this call needs for too long, or the two waited for each other; nothing was changed."""

    code = "database-busy"
    title = "Others are changing the same things"


class BodyUnreadable(Invalid):
    """The body is not chunked or not compressed in the way its headers say."""

    code = "body-unreadable"
    title = "The body cannot be read"


class TextNotStorable(Invalid):
    """A text holds what Postgres cannot store: NUL, or half of a surrogate pair."""

    code = "text-not-storable"
    title = "A text holds a character that cannot be stored"


def from_validation(error: ValidationError, where: str = "") -> InvalidBody:
    """Translate pydantic's error; the values sent are not repeated."""
    errors: list[Json] = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        pointer = "".join(f"/{_escape(part)}" for part in item["loc"])
        errors.append({"pointer": where + pointer, "detail": item["msg"].removeprefix("Value error, ")})
    return InvalidBody("The request does not fit its description; see `errors`.", errors=errors)


def _escape(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn any exception into a problem; what nobody expected is logged and answers 500 without a word of it."""
    try:
        return await handler(request)
    except NexarchError as error:
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error(  # noqa: TRY400 - code and detail say it all
                "request failed", code=error.code, detail=error.detail, path=request.path
            )
        return problem_response(request, error)
    except ValidationError as error:
        return problem_response(request, from_validation(error))
    except web.HTTPRequestEntityTooLarge as error:
        return problem_response(request, TooLarge("The body is larger than this call takes."), error)
    except web.HTTPUnsupportedMediaType as error:
        return problem_response(request, UnsupportedType("This call takes application/json."), error)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return _respond(request, error.status, _slug(error.status), error.reason, None, {}, error)
    except AWAY as error:
        return problem_response(request, _database_away(error))
    except ConnectionError as error:  # one without a number where the client went while it was being sent to
        if request.transport is None or request.transport.is_closing():
            raise  # the client went away: there is nobody to answer
        return problem_response(request, _database_away(error))
    except Exception as error:
        if (problem := _translated(error)) is not None:
            return problem_response(request, problem)
        log.exception("unexpected error", method=request.method, path=request.path)
        return _respond(request, 500, "internal-error", "Something unexpected went wrong", _LOOK, {}, None)


def _translated(error: Exception) -> NexarchError | None:
    """What the driver or aiohttp raises for something that any call can be sent, or two calls at once can meet."""
    match error:
        case asyncpg.CharacterNotInRepertoireError() | asyncpg.UntranslatableCharacterError():
            return TextNotStorable("A text in the request holds U+0000.")
        case asyncpg.DataError(__cause__=UnicodeEncodeError()):
            return TextNotStorable("A text in the request holds half of a surrogate pair.")
        case asyncpg.DeadlockDetectedError() | asyncpg.LockNotAvailableError():
            log.warning("database busy", error=f"{type(error).__name__}: {error}")
            return DatabaseBusy("Others are changing the same things.", retry_after_s=1)
        case OSError() if is_without_address(error):
            return _database_away(error)
        case web.RequestPayloadError():
            return BodyUnreadable("The body is not encoded in the way its headers say.")
    return None


def _database_away(error: Exception) -> DatabaseAway:
    log.warning("database away", reason=f"{type(error).__name__}: {error}")
    return DatabaseAway("The database does not answer.", retry_after_s=2)


_LOOK = "The log of this service has the reason under this request id."


def problem_response(request: web.Request, error: NexarchError, cause: web.HTTPException | None = None) -> web.Response:
    """The answer for one of our own errors; the member `retry_after_s` becomes a Retry-After header too."""
    return _respond(request, error.status, error.code, error.title, error.detail, error.members, cause)


def _respond(
    request: web.Request,
    status: int,
    code: str,
    title: str,
    detail: str | None,
    members: dict[str, Json],
    cause: web.HTTPException | None,
) -> web.Response:
    if request.writer.output_size > 0:
        _break_off(request, code)
    body: dict[str, Json] = {"type": f"/problems/{code}", "title": title, "status": int(status)}
    if detail is not None:
        body["detail"] = detail
    body["instance"] = request.path
    if (request_id := request.get(REQUEST_ID)) is not None:
        body["request_id"] = request_id
    response = web.json_response(body | members, status=status, content_type=MEDIA_TYPE)
    if cause is not None and "Allow" in cause.headers:
        response.headers["Allow"] = cause.headers["Allow"]
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="nexarch"'
    retry_after = members.get("retry_after_s")
    if isinstance(retry_after, int | float):
        response.headers["Retry-After"] = str(max(1, round(retry_after)))
    return response


def _break_off(request: web.Request, code: str) -> NoReturn:
    """A part of an answer is out. What can still be said is that it is not whole: the connection ends in the middle.

    Anything else would reach the client as if it belonged to the body.
    """
    log.error("answer broken off", code=code, path=request.path)
    if request.transport is not None:
        request.transport.close()
    raise ConnectionResetError(f"the answer had begun when this happened: {code}")


def _slug(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "-").replace("'", "")
