"""Connections to a Postgres on this machine: without TLS, unless its pg_hba.conf takes nobody in the clear.

On its way to this same machine nothing is to be hidden, and to ask for TLS costs a millisecond each time. The driver's
own `ssl="allow"` asks again after any refusal, and then says that there is no TLS where there was no free connection.
"""

from typing import TYPE_CHECKING, Any

import asyncpg
import structlog

if TYPE_CHECKING:  # generic for the type checker only
    DriverConnection = asyncpg.Connection[asyncpg.Record]
else:
    DriverConnection = asyncpg.Connection

log = structlog.get_logger(__name__)


class PlainFirst:
    """For `asyncpg.create_pool(connect=...)`; one that had to ask for TLS does so at once from then on."""

    def __init__(self) -> None:
        self._asks_for_tls = False

    async def connect(self, *arguments: Any, **options: Any) -> DriverConnection:  # noqa: ANN401 - as the pool gives them
        """What `asyncpg.connect` does with these."""
        if self._asks_for_tls:
            return await _connect(*arguments, **options)
        try:
            return await _connect(*arguments, **options, ssl=False)
        except asyncpg.InvalidPasswordError:
            raise
        except asyncpg.InvalidAuthorizationSpecificationError as refused:
            conn = await _connect(*arguments, **options)
            self._asks_for_tls = True
            log.info("the database is reached by TLS", reason=str(refused))
            return conn


async def _connect(*arguments: Any, **options: Any) -> DriverConnection:  # noqa: ANN401
    conn: DriverConnection = await asyncpg.connect(*arguments, **options)
    return conn
