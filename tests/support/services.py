"""Real services for tests: each runs on a port of its own, over real databases."""

import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
from aiohttp import web
from aiohttp.test_utils import TestServer
from argon2 import PasswordHasher
from pydantic import SecretStr

from core_api.app import create_app
from core_api.bootstrap import MODULES, OPERATOR_FILE, bootstrap
from core_api.passwords import Passwords
from core_api.settings import Settings
from nexarch.core_client import CoreClient, open_core_client
from nexarch.db import Connection, connect
from nexarch.private_files import SecretFolder
from nexarch.tenant_database import database_dsn, identifier
from support.database import Cluster

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A module's client id and secret."""

    client_id: str
    client_secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Nexarch-Client-Id": self.client_id, "X-Nexarch-Client-Secret": self.client_secret}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with one user."""

    id: UUID
    slug: str
    email: str
    password: str
    user_id: UUID


@dataclass(slots=True)
class CoreApi:
    """A running core-api, bootstrapped. `modules` holds the credentials of dms_ingest, dms_worker and alerter."""

    url: str
    app: web.Application
    settings: Settings
    operator_token: str
    modules: dict[str, Credentials]
    session: aiohttp.ClientSession
    slugs: list[str] = field(default_factory=list)  # to be removed after the test

    @property
    def operator(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.operator_token}"}

    async def call(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        json: object = None,
        params: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON of a request; as the operator unless `headers` are given."""
        given = self.operator if headers is None else headers
        async with self.session.request(method, self.url + path, headers=given, json=json, params=params) as response:
            return response.status, await response.json(content_type=None) if await response.read() else None

    async def as_module(
        self, module_id: str, method: str, path: str, *, json: object = None, params: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The same as one of the modules."""
        return await self.call(method, path, headers=self.modules[module_id].headers, json=json, params=params)

    def new_slug(self) -> str:
        """A slug of this test's own; what it names is removed after the test."""
        slug = new_slug()
        self.slugs.append(slug)
        return slug

    async def create_tenant(self, *, role: str = "admin", email: str = "ada@example.org") -> Tenant:
        """A new tenant with one user."""
        slug = self.new_slug()
        status, tenant = await self.call("POST", "/v1/tenants", json={"slug": slug, "name": f"Tenant {slug}"})
        assert status == 201, tenant
        user_id = await self.add_user(slug, email=email, role=role)
        return Tenant(UUID(tenant["id"]), slug, email, PASSWORD, user_id)

    async def add_user(self, slug: str, *, email: str, role: str, password: str = PASSWORD) -> UUID:
        """A new user of a tenant; returns the id."""
        body = {"email": email, "password": password, "role": role}
        status, user = await self.call("POST", f"/v1/tenants/{slug}/users", json=body)
        assert status == 201, user
        return UUID(user["id"])

    async def token(self, tenant: Tenant, *, email: str | None = None, password: str | None = None) -> str:
        """A token for the tenant's user, or for another one of that tenant."""
        body = {"tenant": tenant.slug, "email": email or tenant.email, "password": password or tenant.password}
        status, answer = await self.call("POST", "/v1/auth/token", headers={}, json=body)
        assert status == 200, answer
        token: str = answer["access_token"]
        return token

    async def set_flag(self, key: str, *, enabled_for_all: bool, tenants: list[str] | None = None) -> None:
        """Turn a flag on or off; all modules need `dms`."""
        body = {"enabled_for_all": enabled_for_all, "tenants": tenants or []}
        status, answer = await self.call("PUT", f"/v1/flags/{key}", json=body)
        assert status == 200, answer

    @asynccontextmanager
    async def client(self, module_id: str) -> AsyncIterator[CoreClient]:
        """core-api as a module sees it."""
        credentials = self.modules[module_id]
        secret = SecretStr(credentials.client_secret)
        async with open_core_client(self.url, credentials.client_id, secret) as client:
            yield client


async def log_in(core: CoreApi, slug: str, *, database: str | None = None, password: str | None = None) -> Connection:
    """A session in a tenant's database as services have it; or in another one, or with another password."""
    async with core.client("dms_ingest") as client:
        address = await client.database(slug)
    return await asyncpg.connect(
        host=address.host,
        port=address.port,
        database=database or address.database,
        user=address.user,
        password=password or address.password.get_secret_value(),
    )


@asynccontextmanager
async def owner_database(core: CoreApi, tenant: Tenant) -> AsyncIterator[Connection]:
    """A connection to a tenant's database as core-api has it: as the owner of the tables."""
    registry = core.settings.registry_dsn.get_secret_value()
    conn = await connect(database_dsn(registry, f"tenant_{tenant.slug}"), application_name="tests")
    try:
        yield conn
    finally:
        await conn.close()


def cheap_passwords() -> Passwords:
    """Argon2id at a hundredth of its cost: three hashes would be half the work of most tests."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


def new_slug() -> str:
    """A slug that no other test uses: the databases and roles of one server share their names."""
    return f"t{secrets.token_hex(6)}"


def new_master_key() -> SecretStr:
    """A random master key."""
    return SecretStr(base64.b64encode(secrets.token_bytes(32)).decode())


@asynccontextmanager
async def run_core_api(
    registry_dsn: str, folder: Path, cluster: Cluster, passwords: Passwords
) -> AsyncIterator[CoreApi]:
    """Bootstrap a registry and serve core-api over it in this process; removes the tenants made through it."""
    settings = Settings(registry_dsn=SecretStr(registry_dsn), master_key=new_master_key(), port=0)
    files = SecretFolder(folder)
    await bootstrap(settings, files)
    modules = {
        module: Credentials(_read(files, f"{module}.client-id"), _read(files, f"{module}.client-secret"))
        for module in MODULES
    }
    app = create_app(settings, passwords)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("")).rstrip("/")
        core = CoreApi(url, app, settings, _read(files, OPERATOR_FILE), modules, session)
        yield core
    conn = await connect(cluster.superuser_dsn, application_name="tests")
    try:
        for slug in core.slugs:
            await remove_tenant(conn, slug)
    finally:
        await conn.close()


async def remove_tenant(superuser: Connection, slug: str) -> None:
    """Drop what a tenant has on the server: its database and its role."""
    name = identifier(f"tenant_{slug}")
    await superuser.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await superuser.execute(f"DROP ROLE IF EXISTS {name}")


def _read(folder: SecretFolder, name: str) -> str:
    text = folder.read(name)
    assert text is not None, name
    return text
