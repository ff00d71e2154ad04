"""A real dms-ingest for tests, in this process or as one of its own, over a real core-api and real databases."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from pydantic import SecretStr

from dms_ingest.app import create_app
from dms_ingest.settings import Settings
from nexarch.db import Connection, connect, set_codecs
from nexarch.tenant_database import identifier
from support.database import Cluster
from support.processes import ServiceProcess, run_service
from support.services import CoreApi, Tenant, log_in

PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"


def a_pdf(size: int = 300_000) -> bytes:
    """So many bytes that begin as a PDF does, no two alike."""
    return PDF + os.urandom(size - len(PDF))


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with a token."""

    tenant: Tenant
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(slots=True)
class Ingest:
    """A running dms-ingest."""

    url: str
    settings: Settings
    session: aiohttp.ClientSession

    async def call(self, person: Person, method: str, path: str, **options: Any) -> tuple[int, Any]:  # noqa: ANN401 - aiohttp's
        """Status and JSON of a request."""
        headers = person.headers | options.pop("headers", {})
        async with self.session.request(method, self.url + path, headers=headers, **options) as response:
            body = await response.read()
            return response.status, await response.json(content_type=None) if body else None

    async def open_upload(self, person: Person, size: int, **fields: object) -> str:
        """Announce a PDF, or what `fields` say; returns the upload's id."""
        body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": size} | fields
        status, upload = await self.call(person, "POST", "/v1/uploads", json=body)
        assert status == 201, upload
        upload_id: str = upload["id"]
        return upload_id

    async def put(
        self, person: Person, upload_id: str, content: bytes | AsyncIterator[bytes], offset: int = 0
    ) -> tuple[int, Any]:
        """Send bytes from an offset on: with Content-Length, or chunked where they come from an iterator."""
        path = f"/v1/uploads/{upload_id}/content?offset={offset}"
        data = BytesIO(content) if isinstance(content, bytes) else content
        return await self.call(person, "PUT", path, data=data)

    async def whole_upload(self, person: Person, content: bytes, **fields: object) -> str:
        """Announce and send all bytes; returns the upload's id, for who completes it."""
        upload_id = await self.open_upload(person, len(content), **fields)
        status, answer = await self.put(person, upload_id, content)
        assert status == 200, answer
        return upload_id

    async def complete(self, person: Person, upload_id: str) -> tuple[int, Any]:
        """Ask for the document."""
        return await self.call(person, "POST", f"/v1/uploads/{upload_id}/complete")

    async def upload(self, person: Person, content: bytes, **fields: object) -> Any:  # noqa: ANN401 - JSON
        """Announce, send and complete; returns the document."""
        status, document = await self.complete(person, await self.whole_upload(person, content, **fields))
        assert status == 200, document
        return document


def ingest_settings(core: CoreApi, bus_dsn: str, folder: Path, **changes: object) -> Settings:
    """Settings for a dms-ingest beside this core-api."""
    credentials = core.modules["dms_ingest"]
    given: dict[str, Any] = {
        "port": 0,
        "core_api_url": core.url,
        "client_id": credentials.client_id,
        "client_secret": SecretStr(credentials.client_secret),
        "base_url": "http://127.0.0.1:8090",
        "bus_dsn": SecretStr(bus_dsn),
        "staging_dir": folder / "staging",
        "storage_dir": folder / "objects",
        "link_key": SecretStr("k" * 32),
        "drain_delay_s": 0,
    }
    return Settings(**given | changes)


@asynccontextmanager
async def run_ingest(settings: Settings) -> AsyncIterator[Ingest]:
    """Serve dms-ingest in this process."""
    async with serving(create_app(settings)) as url, aiohttp.ClientSession() as session:
        yield Ingest(url, settings, session)


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free port, as `nexarch.serve` does; gives its URL.

    aiohttp's TestServer cancels a handler when its client goes away; the real thing lets it end.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def sign_in(core: CoreApi, *, role: str = "editor") -> Person:
    """Someone of a new tenant."""
    tenant = await core.create_tenant(role=role)
    return Person(tenant, await core.token(tenant))


async def sign_in_another(core: CoreApi, tenant: Tenant, *, email: str, role: str = "editor") -> Person:
    """Someone else of the same tenant."""
    await core.add_user(tenant.slug, email=email, role=role)
    return Person(tenant, await core.token(tenant, email=email))


@asynccontextmanager
async def tenant_database(core: CoreApi, person: Person) -> AsyncIterator[Connection]:
    """A connection to the database of someone's tenant, as services have it."""
    conn = await log_in(core, person.tenant.slug)
    try:
        await set_codecs(conn)
        yield conn
    finally:
        await conn.close()


async def lock_out(cluster: Cluster, slug: str) -> None:
    """Let the tenant's role no more into its database."""
    conn = await connect(cluster.superuser_dsn, application_name="tests")
    try:
        await conn.execute(f"ALTER ROLE {identifier(f'tenant_{slug}')} NOLOGIN")
    finally:
        await conn.close()


async def somebody_waits_for_a_lock(conn: Connection) -> bool:
    """Whether a statement in this connection's database waits for a lock that somebody holds."""
    sql = """
        SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
                       WHERE d.datname = current_database() AND NOT l.granted)
    """
    return bool(await conn.fetchval(sql))


def stored_files(settings: Settings, person: Person) -> list[Path]:
    """The files in the tenant's part of the store, those being written too."""
    return [path for path in stored_folder(settings, person).rglob("*") if path.is_file()]


def stored_folder(settings: Settings, person: Person) -> Path:
    """The tenant's part of a store on the local disk."""
    assert settings.storage_dir is not None
    return settings.storage_dir / person.tenant.slug


def staged_file(settings: Settings, person: Person, upload_id: str) -> Path:
    """Where the bytes of an upload lie until it is complete."""
    return settings.staging_dir / person.tenant.slug / upload_id


@asynccontextmanager
async def run_ingest_process(settings: Settings) -> AsyncIterator[tuple[Ingest, ServiceProcess]]:
    """Serve dms-ingest in a process of its own."""
    async with run_service("dms_ingest", settings) as process, aiohttp.ClientSession() as session:
        yield Ingest(process.url, settings, session), process
