"""The calls that services make to core-api, with their service credentials.

Nothing is cached here: what may be kept, and for how long, is the caller's decision (the KEK: never).
"""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

import aiohttp
from pydantic import BaseModel, SecretStr, ValidationError

from nexarch.errors import Forbidden, NexarchError, NotFound, Unavailable
from nexarch.tracing import current_trace

M = TypeVar("M", bound=BaseModel)

_TIMEOUT = aiohttp.ClientTimeout(total=10.0, connect=3.0)


class CoreApiAway(Unavailable):
    """core-api does not answer, or answers nonsense."""

    code = "core-api-away"
    title = "The control plane does not answer"


class RefusedByCoreApi(Forbidden):
    """core-api refuses this service or this tenant: `reason` is the code of its problem."""

    code = "refused-by-core-api"
    title = "The control plane refuses this"


class KeyRetired(NexarchError):
    """Nothing is wrapped under this version of the KEK any more: who has a row that says so reads it again."""

    code = "kek-retired"
    status = HTTPStatus.GONE
    title = "The key version is retired"

    def __init__(self) -> None:
        super().__init__("The key version is retired: nothing is wrapped under it any more.")


class KeyShredded(NexarchError):
    """The tenant's keys were destroyed on purpose; its files can never be read again."""

    code = "kek-shredded"
    status = HTTPStatus.GONE
    title = "The tenant's keys are destroyed"

    def __init__(self) -> None:
        super().__init__("The tenant's keys were destroyed; its files can never be read again.")


class TenantSummary(BaseModel):
    """One tenant as modules see it."""

    id: UUID
    slug: str
    status: str
    idle_s: float  # since a producer last armed it, by the registry's clock


class OperatorIdentity(BaseModel):
    """Someone who runs the platform."""

    id: UUID
    name: str


class DatabaseAddress(BaseModel):
    """Where a tenant's data lives, and the role to reach it with."""

    tenant_id: UUID
    slug: str
    host: str
    port: int
    database: str
    user: str
    password: SecretStr


class TenantKey(BaseModel):
    """A tenant's key-encryption key (32 bytes in base64) and its version."""

    tenant_kek_base64: SecretStr
    kek_version: int

    @property
    def kek(self) -> bytes:
        """The 32 bytes; `CoreApiAway` if core-api sent something else."""
        try:
            key = base64.b64decode(self.tenant_kek_base64.get_secret_value(), validate=True)
        except binascii.Error as error:
            raise CoreApiAway("core-api sent a KEK that is not base64.") from error
        if len(key) != 32:
            raise CoreApiAway("core-api sent a KEK that is not 32 bytes long.")
        return key


class KeyVersion(BaseModel):
    """A version of a tenant's KEK, and what became of it: `active`, `retiring`, `retired` or `shredded`."""

    version: int
    state: str


class UsageDelta(BaseModel):
    """A change of a tenant's usage; applied once however often it is sent."""

    id: UUID
    tenant_slug: str
    metric: str
    delta: int


class OtherStore(BaseModel):
    """What another module says of the object store that it sees; see `nexarch.same_store`."""

    module: str
    store_id: UUID | None
    settings: dict[str, str]


class _OtherStores(BaseModel):
    items: list[OtherStore]


class _KeyVersions(BaseModel):
    items: list[KeyVersion]


class _TenantPage(BaseModel):
    items: list[TenantSummary]
    next_cursor: str | None


class CoreClient:
    """core-api as one module sees it. Made by `open_core_client`."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def announce(self, version: str, base_url: str) -> None:
        """Tell core-api which version of this module runs and where; it shows both to operators."""
        await self._call("POST", "/v1/modules/self/announce", json={"version": version, "base_url": base_url})

    async def tell_store(self, store_id: UUID | None, settings: Mapping[str, str]) -> list[OtherStore]:
        """Tell which object store this module sees; returns what the other running modules see."""
        told = {"store_id": None if store_id is None else str(store_id), "settings": dict(settings)}
        return _read(_OtherStores, await self._call("POST", "/v1/modules/self/store", json=told)).items

    async def tenants(self) -> AsyncIterator[TenantSummary]:
        """Every tenant, page by page."""
        query = {"limit": "200"}
        while True:
            page = _read(_TenantPage, await self._call("GET", "/v1/tenants", params=query))
            for tenant in page.items:
                yield tenant
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    async def database(self, slug: str) -> DatabaseAddress:
        """The tenant's database; `NotFound` for an unknown tenant, `RefusedByCoreApi` for a suspended one."""
        return _read(DatabaseAddress, await self._call("GET", f"/v1/tenants/{slug}/database"))

    async def kek(self, slug: str, version: int | None = None) -> TenantKey:
        """The tenant's KEK: the active version, or the one that an object was sealed with.

        `NotFound`, `KeyRetired`, `KeyShredded`, `RefusedByCoreApi` for a suspended tenant.
        """
        query = {} if version is None else {"version": str(version)}
        return _read(TenantKey, await self._call("GET", f"/v1/tenants/{slug}/kek", params=query))

    async def kek_versions(self, slug: str) -> list[KeyVersion]:
        """The versions of the tenant's KEK, newest first."""
        return _read(_KeyVersions, await self._call("GET", f"/v1/tenants/{slug}/kek/versions")).items

    async def retire_keks(self, slug: str) -> list[KeyVersion]:
        """Have older versions retired that nothing is wrapped under any more; those still `retiring` are in use."""
        return _read(_KeyVersions, await self._call("POST", f"/v1/tenants/{slug}/kek/retire")).items

    async def operator(self, token: str) -> OperatorIdentity | None:
        """Whose token this is, None if nobody's. The token itself is not sent, only its SHA-256."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        try:
            answer = await self._call("POST", "/v1/operators/identify", json={"token_sha256": digest})
        except NotFound:
            return None
        return _read(OperatorIdentity, answer)

    async def report_usage(self, deltas: Sequence[UsageDelta]) -> int:
        """Deliver usage; returns how many ids core-api had not seen before."""
        body = [delta.model_dump(mode="json") for delta in deltas]
        answer = await self._call("POST", "/v1/usage", json=body)
        return int(answer["applied"])

    async def jwks(self) -> dict[str, Any]:
        """The public keys of users' tokens (RFC 7517)."""
        answer: dict[str, Any] = await self._call("GET", "/.well-known/jwks.json")
        return answer

    async def ping(self) -> None:
        """Raise unless core-api is alive; for /readyz."""
        await self._call("GET", "/livez")

    async def _call(self, method: str, path: str, *, params: dict[str, str] | None = None, json: object = None) -> Any:  # noqa: ANN401 - JSON
        trace = current_trace()
        headers = {} if trace is None else {"traceparent": str(trace.child())}
        try:
            async with self._session.request(
                method, self._url + path, params=params, json=json, headers=headers, allow_redirects=False
            ) as response:
                body = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise CoreApiAway(f"core-api does not answer ({type(error).__name__}).", retry_after_s=2) from error
        if response.status < HTTPStatus.BAD_REQUEST:
            return body
        code = str(body.get("type", "")).rpartition("/")[2] if isinstance(body, dict) else "unknown"
        if response.status == HTTPStatus.NOT_FOUND:
            raise NotFound("There is no such tenant.")
        if code == KeyRetired.code:
            raise KeyRetired
        if code == KeyShredded.code:
            raise KeyShredded
        if response.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RefusedByCoreApi(f"core-api refuses this: {code}.", reason=code)
        raise CoreApiAway(f"core-api answers {response.status} {code}.", retry_after_s=2)


@asynccontextmanager
async def open_core_client(url: str, client_id: str, client_secret: SecretStr) -> AsyncIterator[CoreClient]:
    """A client that sends this module's credentials with every call."""
    headers = {
        "X-Nexarch-Client-Id": client_id,
        "X-Nexarch-Client-Secret": client_secret.get_secret_value(),
    }
    connector = aiohttp.TCPConnector(limit=32, keepalive_timeout=15.0)
    async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=_TIMEOUT) as session:
        yield CoreClient(session, url)
        # The transports close one turn of the loop later; without it Python warns of unclosed ones.
        await asyncio.sleep(0)


def _read(model: type[M], body: object) -> M:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise CoreApiAway(f"core-api's answer is no {model.__name__}.") from error
