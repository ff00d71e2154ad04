"""What a run needs of the platform that it breaks: ways to break its parts, and to look inside."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

Service = Literal["core-api", "dms-ingest", "dms-worker", "alerter"]
Part = Literal["core-api", "dms-ingest", "dms-worker", "alerter", "PostgreSQL", "object store"]

SERVICES: tuple[Service, ...] = ("core-api", "dms-ingest", "dms-worker", "alerter")

KNOWN_WITHIN_S = 60.0  # until it must be seen that a fault stands


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An object in the store."""

    size: int  # bytes, as it is sealed
    put_at: datetime  # with zone


class Stack(Protocol):
    """A platform that runs, with a tenant and an editor in it.

    Each way to break it is a block, which begins when it was seen that the fault stands: the process is gone or stands
    still, a byte finds no room. TimeoutError where that is never seen. After the block we break nothing any more.
    """

    core_url: str
    ingest_url: str
    operator_token: str
    tenant: str
    email: str
    password: str

    def killed(self, service: Service) -> AbstractAsyncContextManager[None]:
        """SIGKILL of its process; nobody but the platform starts it again, which may be within the block."""

    def restarted_postgres(self) -> AbstractAsyncContextManager[None]:
        """PostgreSQL stops in an orderly way and starts again, within the block or at its end."""

    def stopped(self, part: Part) -> AbstractAsyncContextManager[None]:
        """Within the block the part does not run."""

    def paused(self, service: Service) -> AbstractAsyncContextManager[None]:
        """Within the block the service's process stands still, its connections open (SIGSTOP)."""

    def full_disk(self) -> AbstractAsyncContextManager[None]:
        """Within the block there is no room on the disk for staged uploads."""

    def dropped_bus(self) -> AbstractAsyncContextManager[None]:
        """Every session on the event bus was ended."""

    async def unready(self) -> list[str]:
        """The services whose /readyz does not say 200 now."""

    async def rows(self, database: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, as the superuser."""

    async def objects(self) -> dict[str, StoredFile]:
        """The tenant's objects in the store, by key."""

    async def versions(self) -> dict[str, str]:
        """What runs, for the report: name and version."""
