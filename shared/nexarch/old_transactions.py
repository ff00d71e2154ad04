"""The oldest open transaction of the server: while it lives, no row version of its database that it could see goes.

A queue makes many such versions: beside one forgotten snapshot a claim has to step over every job done since, and the
queue of that database slows down with each job. So it is watched, and told by `nexarch doctor`.
"""

from dataclasses import dataclass

from nexarch.db import Connection, fetch_optional

OLD_S = 300.0
"""Ours last seconds; the longest, a migration or a backup, may last minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of another session, whoever it belongs to."""

    pid: int
    application: str
    database: str
    state: str
    age_s: float


async def oldest_transaction(conn: Connection) -> OpenTransaction | None:
    """The oldest transaction of all clients but this one, of all databases of the server; None if there is none.

    It sees other roles' sessions only as a member of pg_read_all_stats, as bootstrap makes nexarch_core.
    """
    sql = """
        SELECT pid, application_name AS application, coalesce(datname, '') AS database, state,
            extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age_s
        FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND backend_type = 'client backend' AND pid <> pg_backend_pid()
        ORDER BY xact_start
        LIMIT 1
    """
    return await fetch_optional(conn, OpenTransaction, sql)
