"""How a statement that the schema must refuse is tried, and which constraint refused it."""

from collections.abc import Iterable

import asyncpg

from nexarch.db import Connection

# Their refusals are tested beside the code of the queue.
TABLES_TESTED_ELSEWHERE = frozenset({"job_attempts", "job_schedules", "processing_jobs", "schema_migrations"})


async def refused_by(conn: Connection, statement: str) -> str | None:
    """Run a statement, with all constraints checked at once, and name the one that refused it; None: none did."""
    try:
        async with conn.transaction():
            await conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
            await conn.execute(statement)
    except asyncpg.IntegrityConstraintViolationError as error:
        return str(error.constraint_name)
    return None


async def rules(conn: Connection) -> set[str]:
    """Names of all keys, foreign keys, checks, unique indexes and refusing triggers of the schema.

    A single-column key with a default of uuidv7() is left out: it is no rule that a caller could break.
    """
    sql = """
        SELECT conrelid::regclass::text AS table, conname AS name
          FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f', 'u', 'x')
         UNION ALL
        SELECT conrelid::regclass::text, conname
          FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND contype = 'p'
           AND NOT EXISTS (SELECT FROM pg_attrdef
                            WHERE adrelid = conrelid AND adnum = ANY (conkey)
                              AND pg_get_expr(adbin, adrelid) = 'uuidv7()')
         UNION ALL
        SELECT indrelid::regclass::text, indexrelid::regclass::text
          FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
         WHERE relnamespace = 'public'::regnamespace AND indisunique
           AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
         UNION ALL
        SELECT tgrelid::regclass::text, refusal[1]
          FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid,
               regexp_matches(prosrc, 'CONSTRAINT = ''(\\w+)''', 'g') AS refusal
         WHERE NOT tgisinternal
    """
    return {row["name"] for row in await conn.fetch(sql) if row["table"] not in TABLES_TESTED_ELSEWHERE}


def insert(table: str, valid: dict[str, str], **changes: str) -> str:
    """An INSERT of a valid row with some columns changed; values are SQL expressions."""
    row = valid | changes
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(row.values())})"


def names_that_are_none() -> Iterable[str]:
    """SQL expressions of names that `is_name` refuses."""
    return (
        "''",
        "'   '",
        "repeat('x', 256)",
        "'a/b'",
        r"E'a\tb'",
        r"E'a\u007fb'",
        r"E'u\u0308'",  # not in NFC
    )
