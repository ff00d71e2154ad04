"""Fixtures that all tests may use: a real Postgres, and databases of a test's own.

A database costs a tenth of a second; `tenant_conn` and `registry_conn`, whose transaction is rolled back, next
to nothing. Ask for the database before `aiohttp_client`, or it is dropped under the running server.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from core_api.passwords import Passwords
from nexarch.db import Connection, connect
from nexarch.postgres import PostgresServer
from nexarch.storage.local import LocalStorage
from support import database, js_clients
from support.database import Cluster, TenantDatabase
from support.ingest import Ingest, Person, ingest_settings, run_ingest, sign_in
from support.seaweedfs import S3Server, run_seaweedfs
from support.services import CoreApi, cheap_passwords, run_core_api
from support.tus import Tus


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for a Postgres server of the test's own."""
    # Not in pytest's own folder: under root, every start of pytest closes that one to Postgres's system user.
    with tempfile.TemporaryDirectory(prefix="nexarch-tests-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, one for each process that runs tests."""
    with tempfile.TemporaryDirectory(prefix="nexarch-tests-", ignore_cleanup_errors=True) as home:  # as above
        server = database.start_server(Path(home))
        yield server
        server.stop("immediate")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server, one for each process that runs tests; each test makes buckets of its own."""
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[LocalStorage]:
    """An object store in a folder, with a bucket of acme."""
    store = LocalStorage(tmp_path)
    await store.ensure_bucket("acme")
    yield store
    store.close()


@pytest.fixture(scope="session")
def cluster(postgres: PostgresServer) -> Cluster:
    """That server as `nexarch bootstrap` leaves it, with templates to copy databases from."""
    return asyncio.run(database.prepare_cluster(postgres.dsn()))


@pytest.fixture
async def registry_database(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a migrated registry database of this test's own."""
    async with database.own_registry(cluster) as name:
        yield name


@pytest.fixture
def registry_dsn(cluster: Cluster, registry_database: str) -> str:
    """The address of the test's registry, as nexarch_core."""
    return database.registry_core_dsn(cluster, registry_database)


@pytest.fixture
def bus_dsn(cluster: Cluster, registry_database: str) -> str:
    """The address of the test's registry, as nexarch_bus."""
    return database.registry_bus_dsn(cluster, registry_database)


@pytest.fixture
async def tenant_database(cluster: Cluster) -> AsyncIterator[TenantDatabase]:
    """A migrated tenant database of this test's own."""
    async with database.own_tenant(cluster) as tenant:
        yield tenant


@pytest.fixture
def tenant_dsn(tenant_database: TenantDatabase) -> str:
    """The address of the test's tenant database, as the tenant's role: what services use."""
    return tenant_database.dsn


@pytest.fixture
async def two_conns(tenant_dsn: str) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two sessions that commit, for what happens when two work at once."""
    first = await connect(tenant_dsn, application_name="tests")
    second = await connect(tenant_dsn, application_name="tests")
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
def tenant_owner_dsn(tenant_database: TenantDatabase) -> str:
    """The address of the test's tenant database, as nexarch_core."""
    return tenant_database.owner_dsn


@pytest.fixture(scope="session")
def shared_tenant(cluster: Cluster) -> Iterator[TenantDatabase]:
    """A tenant database for all tests that roll back what they do."""
    with asyncio.Runner() as runner:
        opened = database.own_tenant(cluster)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def shared_registry(cluster: Cluster) -> Iterator[str]:
    """The address of a registry for all tests that roll back what they do."""
    with asyncio.Runner() as runner:
        opened = database.own_registry(cluster)
        yield database.registry_core_dsn(cluster, runner.run(opened.__aenter__()))
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def tenant_user(shared_tenant: TenantDatabase) -> UUID:
    """The id of an editor in the database of `tenant_conn`."""
    return asyncio.run(database.add_user(shared_tenant.owner_dsn, "editor@example.org", "editor"))


@pytest.fixture
async def tenant_conn(shared_tenant: TenantDatabase) -> AsyncIterator[Connection]:
    """A connection as the tenant's role, in a transaction that is rolled back after the test."""
    async for conn in _rolled_back(shared_tenant.dsn):
        yield conn


@pytest.fixture
async def tenant_owner_conn(shared_tenant: TenantDatabase) -> AsyncIterator[Connection]:
    """The same as nexarch_core, who may write users."""
    async for conn in _rolled_back(shared_tenant.owner_dsn):
        yield conn


@pytest.fixture
async def registry_conn(shared_registry: str) -> AsyncIterator[Connection]:
    """A connection to a registry as nexarch_core, in a transaction that is rolled back after the test."""
    async for conn in _rolled_back(shared_registry):
        yield conn


async def _rolled_back(dsn: str) -> AsyncIterator[Connection]:
    conn = await connect(dsn, application_name="tests")
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield conn
    finally:
        await transaction.rollback()
        await conn.close()


@pytest.fixture
def passwords() -> Passwords:
    """What core-api's passwords cost; tests of passwords themselves take the real thing."""
    return cheap_passwords()


@pytest.fixture
async def core_api(cluster: Cluster, registry_dsn: str, passwords: Passwords, tmp_path: Path) -> AsyncIterator[CoreApi]:
    """A running core-api over a registry of this test's own, with an operator, modules and their credentials."""
    async with run_core_api(registry_dsn, tmp_path / "secrets", cluster, passwords) as core:
        yield core


@pytest.fixture
async def ingest(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> AsyncIterator[Ingest]:
    """A dms-ingest in this process, beside that core-api."""
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as running:
        yield running


@pytest.fixture
async def editor(core_api: CoreApi) -> Person:
    """An editor of a new tenant."""
    return await sign_in(core_api)


@pytest.fixture
def tus(ingest: Ingest, editor: Person) -> Tus:
    """The editor, speaking tus to the running dms-ingest."""
    return Tus(ingest, editor)


@pytest.fixture(scope="session")
def npm_packages() -> None:
    """The packages of tests/clients are installed, for `support.js_clients`."""
    js_clients.install("clients")
