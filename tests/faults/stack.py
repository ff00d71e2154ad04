"""What a run needs of the platform that it breaks: ways to break its parts, and to look inside."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

Service = Literal["core-api", "dms-ingest", "dms-worker", "alerter"]
Part = Literal["core-api", "dms-ingest", "dms-worker", "alerter", "PostgreSQL", "object store"]

SERVICES: tuple[Service, ...] = ("core-api", "dms-ingest", "dms-worker", "alerter")


class Stack(Protocol):
    """A platform that runs, with a tenant and an editor in it."""

    core_url: str
    ingest_url: str
    operator_token: str
    tenant: str
    email: str
    password: str

    async def kill(self, service: Service) -> None:
        """SIGKILL its process; nobody but the platform starts it again."""

    async def restart_postgres(self) -> None:
        """Have PostgreSQL stop in an orderly way and start again."""

    def stopped(self, part: Part) -> AbstractAsyncContextManager[None]:
        """Within the block the part does not run."""

    def paused(self, service: Service) -> AbstractAsyncContextManager[None]:
        """Within the block the service's process stands still, its connections open (SIGSTOP)."""

    def full_disk(self) -> AbstractAsyncContextManager[None]:
        """Within the block there is no room on the disk for staged uploads."""

    async def drop_bus(self) -> int:
        """End every session on the event bus; returns how many there were."""

    async def unready(self) -> list[str]:
        """The services whose /readyz does not say 200 now."""

    async def rows(self, database: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, as the superuser."""

    async def objects(self) -> dict[str, int]:
        """The tenant's objects in the store: key, and size in bytes as it is sealed."""

    async def versions(self) -> dict[str, str]:
        """What runs, for the report: name and version."""
