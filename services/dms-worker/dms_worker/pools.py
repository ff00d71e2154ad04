"""The worker's connections to the tenants' databases: few, for any number of tenants, and tuned for the queue."""

from collections.abc import Awaitable, Callable
from typing import Final

from nexarch.core_client import DatabaseAddress
from nexarch.tenancy import TenantPools

_MOST_CONNECTIONS: Final = 24  # open between two uses; those of running jobs and of turns may come on top

# The statements of the queue have one good plan each, through its indexes, whatever the table holds. Planned anew at
# each run they take twice as long, and a table that looked small at the first plan must not be read from end to end.
SESSION: Final = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}


def worker_pools(
    resolve: Callable[[str], Awaitable[DatabaseAddress]], *, application_name: str, max_size: int
) -> TenantPools:
    """Open the pools of one worker process."""
    return TenantPools(
        resolve,
        application_name=application_name,
        max_size=max_size,
        max_connections=_MOST_CONNECTIONS,
        session=SESSION,
    )
