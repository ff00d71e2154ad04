"""How much one forgotten transaction slows the queue down: six rounds of jobs behind a REPEATABLE READ snapshot.

    python bench/old_snapshot.py [JOBS]

One JSON object per line, `{"bench": "old_snapshot", "case": ...}`. Each round enqueues JOBS (20,000) and drains them:
claims 100, completes 100, one after the other on one connection, without any worker. `drain_per_s` is jobs a second,
`claim_ms` the claim of one lone job after the round, the median of 20. Cases: `without` a snapshot, `behind` one that
was taken before the first round, and `after` it was given up and the table vacuumed.
"""

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.jobs import NewJob
from nexarch.postgres import PostgresServer
from support import database

ROUNDS = 6


async def drain_round(conn: Connection, number: int) -> float:
    """Jobs a second."""
    await jobs.enqueue_many(conn, [NewJob("noop", {})] * number)
    started = time.perf_counter()
    while claimed := await jobs.claim(conn, "bench", {"noop": 100}):
        await jobs.complete(conn, claimed)
    return number / (time.perf_counter() - started)


async def lone_claim_ms(conn: Connection) -> float:
    """The median time of a claim that finds one job."""
    times = []
    for _ in range(20):
        await jobs.enqueue(conn, "noop", {})
        started = time.perf_counter()
        claimed = await jobs.claim(conn, "bench", {"noop": 100})
        times.append(1000 * (time.perf_counter() - started))
        await jobs.complete(conn, claimed)
    return statistics.median(times)


async def rounds(conn: Connection, case: str, number: int, how_many: int) -> None:
    for round_number in range(1, how_many + 1):
        per_s = await drain_round(conn, number)
        claim_ms = await lone_claim_ms(conn)
        figures = {"round": round_number, "drain_per_s": round(per_s), "claim_ms": round(claim_ms, 2)}
        print(json.dumps({"bench": "old_snapshot", "case": case, **figures}), flush=True)


async def main(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="nexarch-bench-", ignore_cleanup_errors=True) as home:
        server = PostgresServer(Path(home), database.free_port())
        server.start()
        try:
            cluster = await database.prepare_cluster(server.dsn())
            for case in ("without", "behind"):
                async with database.own_tenant(cluster) as tenant:
                    conn = await connect(tenant.dsn, application_name="bench")
                    forgetful = await connect(tenant.dsn, application_name="bench-forgetful")
                    snapshot = forgetful.transaction(isolation="repeatable_read", readonly=True)
                    await snapshot.start()
                    if case == "behind":
                        await forgetful.fetchval("SELECT 1")  # only now the snapshot is taken
                    await rounds(conn, case, number, ROUNDS)
                    await snapshot.rollback()
                    if case == "behind":
                        owner = await connect(tenant.owner_dsn, application_name="bench")
                        await owner.execute("VACUUM processing_jobs")
                        await rounds(conn, "after", number, 1)
                        await owner.close()
                    await forgetful.close()
                    await conn.close()
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
