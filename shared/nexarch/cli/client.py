"""HTTP calls to the services, with every refusal as a `Failure` that says what mends it.

async with open_session() as session:
    api = operator_api(session, target)
    tenant = await api.call("GET", "/v1/tenants/acme")
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp
from yarl import URL

from nexarch.cli.failures import Failure, NotAuthorised, NotFound, Unavailable
from nexarch.cli.target import START_OR_LOG_IN, Target

# No total: a transfer takes as long as it takes. A silent server is found by sock_read.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=60.0)
_PAGE = 200
_EXPIRY_MARGIN_S = 30.0
_LOG_IN = "Run `nexarch login`."


class Credentials(Protocol):
    """What proves who asks."""

    async def token(self, *, refused: bool = False) -> str:
        """A bearer token; `refused` says that the one given before was answered with 401."""
        ...


class OperatorToken:
    """The token of someone who runs the platform; it does not expire by itself."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self, *, refused: bool = False) -> str:
        """The token; `NotAuthorised` once it was refused."""
        if refused:
            raise NotAuthorised("The operator's token is not valid.", hint="Set NEXARCH_OPERATOR_TOKEN to one that is.")
        return self._token


class UserLogin:
    """A user's login; renewed by itself where the password is known, for uploads that outlast the token."""

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._token = target.token
        self._expires_at = target.expires_at

    async def token(self, *, refused: bool = False) -> str:
        """A token that is valid for now; `NotAuthorised` if there is none and no password to get one with."""
        expired = self._expires_at is not None and self._expires_at - _EXPIRY_MARGIN_S < time.time()
        if self._token is not None and not expired and not refused:
            return self._token
        if self._target.password is None or self._target.tenant is None or self._target.email is None:
            raise _no_login(self._token is not None)
        answer = await log_in(
            self._session, self._target.url("core"), self._target.tenant, self._target.email, self._target.password
        )
        self._token = str(answer["access_token"])
        self._expires_at = time.time() + float(answer["expires_in"])
        return self._token


def _no_login(had_one: bool) -> NotAuthorised:
    if had_one:
        return NotAuthorised("The login has expired.", hint="Run `nexarch login` again, then the same command.")
    return NotAuthorised("Nobody is logged in.", hint=f"{START_OR_LOG_IN}, or give --endpoints.")


async def log_in(
    session: aiohttp.ClientSession, core_url: str, tenant: str, email: str, password: str
) -> dict[str, Any]:
    """Exchange a password for a token: `{"access_token", "expires_in", ...}`."""
    body = {"tenant": tenant, "email": email, "password": password}
    answer: dict[str, Any] = await Api(session, core_url, "core-api", None).call("POST", "/v1/auth/token", json=body)
    return answer


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """The connections of one command."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT, headers={"User-Agent": "nexarch-cli"}) as session:
        yield session
        # The transports close one turn of the loop later; without it Python warns of unclosed ones.
        await asyncio.sleep(0)


class Api:
    """One service as one caller sees it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, service: str, credentials: Credentials | None) -> None:
        self._session = session
        self._credentials = credentials
        self.url = url.rstrip("/")
        self.service = service

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Make a call and return its JSON answer (None where it has no body)."""
        async with self.request(method, path, json=json, params=params, headers=headers) as response:
            if response.status == HTTPStatus.NO_CONTENT:
                return None
            return await self._read_json(response)

    async def page(self, path: str, params: Mapping[str, str], limit: int | None, cursor: str | None) -> dict[str, Any]:
        """Up to `limit` items of a list (None: all) as `{"items", "next_cursor"}`, however many pages it takes."""
        items: list[dict[str, Any]] = []
        while True:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(items))
            query = {**params, "limit": str(wanted), **({"cursor": cursor} if cursor else {})}
            answer = await self.call("GET", path, params=query)
            items += answer["items"]
            cursor = answer.get("next_cursor")
            if cursor is None or (limit is not None and len(items) >= limit):
                return {"items": items, "next_cursor": cursor}

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str] | None = None,
        data: Any = None,  # noqa: ANN401 - whatever aiohttp sends
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make a call and yield its answer, body unread; a status of 400 or more is raised as a `Failure`."""
        token = None if self._credentials is None else await self._credentials.token()
        response = await self._send(method, path, token, json=json, params=params, data=data, headers=headers)
        if response.status == HTTPStatus.UNAUTHORIZED and self._credentials is not None and data is None:
            response.release()
            token = await self._credentials.token(refused=True)
            response = await self._send(method, path, token, json=json, params=params, data=data, headers=headers)
        async with response:
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise await self._failure(response)
            try:
                yield response
            except (aiohttp.ClientError, TimeoutError) as error:
                raise self._away(error) from error

    async def _send(
        self,
        method: str,
        path: str,
        token: str | None,
        *,
        json: object,
        params: Mapping[str, str] | None,
        data: Any,  # noqa: ANN401 - whatever aiohttp sends
        headers: Mapping[str, str] | None,
    ) -> aiohttp.ClientResponse:
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        try:
            return await self._session.request(
                method, URL(self.url + path), json=json, params=params, data=data, headers=sent, allow_redirects=False
            )
        except aiohttp.InvalidURL as error:
            raise Failure(f"{self.url} is not an address of {self.service}.") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._away(error) from error

    async def _read_json(self, response: aiohttp.ClientResponse) -> Any:  # noqa: ANN401 - JSON
        try:
            return json.loads(await response.read())
        except ValueError as error:
            raise Unavailable(
                f"{self.service} at {self.url} answers something that is not JSON.", hint="Is the address right?"
            ) from error

    def _away(self, error: BaseException) -> Unavailable:
        what = str(error) or type(error).__name__
        return Unavailable(
            f"{self.service} at {self.url} does not answer: {what}.", hint="`nexarch doctor` says what is wrong."
        )

    async def _failure(self, response: aiohttp.ClientResponse) -> Failure:
        try:
            problem = json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            problem = None
        if not isinstance(problem, dict):
            problem = {"detail": f"{self.service} at {self.url} answers {response.status} {response.reason}."}
        return _as_failure(response.status, problem)


def _as_failure(status: int, problem: Mapping[str, Any]) -> Failure:
    code = str(problem.get("type", "")).rpartition("/")[2]
    detail = str(problem.get("detail") or problem.get("title") or f"The service answers {status}.")
    if isinstance(errors := problem.get("errors"), list):
        places = [f"{e.get('pointer', '')}: {e.get('detail', '')}" for e in errors if isinstance(e, dict)]
        detail = "; ".join(places) or detail
    match status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.GONE:
            return NotFound(detail, code=code, members=problem)
        case HTTPStatus.UNAUTHORIZED:
            return NotAuthorised(detail, hint=_LOG_IN, code=code, members=problem)
        case HTTPStatus.FORBIDDEN:
            return NotAuthorised(detail, code=code, members=problem)
        case HTTPStatus.TOO_MANY_REQUESTS:
            wait = problem.get("retry_after_s")
            hint = f"Try again in {wait} s." if wait else "Try again later."
            return Unavailable(detail, hint=hint, code=code, members=problem)
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            request_id = problem.get("request_id")
            hint = f"Request id {request_id}." if request_id else ""
            return Unavailable(detail, hint=hint, code=code, members=problem)
        case _:
            return Failure(detail, code=code, members=problem)


def operator_api(session: aiohttp.ClientSession, target: Target) -> Api:
    """core-api for an operator; `NotAuthorised` where no operator's token is known."""
    return Api(session, target.url("core"), "core-api", _operator(target))


def documents_api(session: aiohttp.ClientSession, target: Target, *, as_operator: bool = False) -> Api:
    """dms-ingest for the user who is logged in, or for an operator."""
    credentials = _operator(target) if as_operator else UserLogin(session, target)
    return Api(session, target.url("ingest"), "dms-ingest", credentials)


def jobs_api(session: aiohttp.ClientSession, target: Target, *, as_operator: bool = False) -> Api:
    """dms-worker for the user who is logged in, or for an operator."""
    credentials = _operator(target) if as_operator else UserLogin(session, target)
    return Api(session, target.url("worker"), "dms-worker", credentials)


def _operator(target: Target) -> OperatorToken:
    if target.operator_token is None:
        raise NotAuthorised(
            "This needs an operator's token.",
            hint="Set NEXARCH_OPERATOR_TOKEN, run `nexarch login --operator` or give --endpoints.",
        )
    return OperatorToken(target.operator_token)
