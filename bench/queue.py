"""How fast the queue is, next to bare loops over asyncpg and to pgqueuer in the same run.

    python bench/queue.py [--quick] [CASE ...]

Starts a PostgreSQL of its own, on disk and with fsync. One JSON object per line, `{"bench": "queue", "case": ...}`.
Ours and the floor take turns in each case; rates are medians, `ratio` is the median of the ratios of neighbouring
turns, so that other load on the machine harms both. "Ours" is the worker as the service runs it, in this process.

- `enqueue_single`, `enqueue_many`: floor: an insert, one of 20,000 rows.
- `drain`: 20,000 jobs that do nothing. Floor: claims 100 and completes the 100 before in one statement.
- `wake_idle`, `wake_100k_finished`: from the commit of a lone job until its handler is entered; in the second with
  100,000 finished rows in the table. Floor: woken by a NOTIFY in a second database,
  where nobody else listens, as nobody else listens where ours does.
- `drain_after_1m`: a drain and wakes after a million jobs that ran while old ones were pruned; next to a fresh table.
- `tenants_1000`: one worker for 1,000 tenant databases: the most connections seen, LISTEN connections among them, the
  processor's share at rest, the wake of one tenant (floor: a new connection to its database and one commit), and the
  time of 1,000 rings at once with one job each.
- `fairness`: a tenant has 10,000 jobs of 10 ms; the longest wait of another's single job.
- `bell_cost`: commits a second on 8 connections with the bell, as a share of those without.
"""

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, where this file would hide the standard library's `queue`
sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "tests"))  # whose support makes roles and templates

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable

import structlog

from bench.queue_cases import aged, bell, tenants, throughput, waking
from bench.queue_cases.stage import Stage, open_stage
from dms_worker.__main__ import collect_rarely

TENANT = "acme"
_LONGEST_S = 1800.0  # for a case, should a job be lost

CASES: dict[str, Callable[[Stage, int], Awaitable[None]]] = {
    "enqueue_single": lambda stage, part: throughput.enqueue_single(stage, TENANT, number=1000 // part),
    "enqueue_many": lambda stage, part: throughput.enqueue_many(stage, TENANT, number=20_000 // part),
    "drain": lambda stage, part: throughput.drain(stage, TENANT, number=20_000 // part),
    "wake_idle": lambda stage, part: waking.wake(stage, TENANT, case="wake_idle", number=300 // part),
    "wake_100k_finished": lambda stage, part: waking.wake(
        stage, TENANT, case="wake_100k_finished", number=300 // part, finished=100_000 // part
    ),
    "tenants_1000": lambda stage, part: tenants.tenants_1000(
        stage, tenants=1000 // part, wakes=300 // part, idle_s=20 / part
    ),
    "drain_after_1m": lambda stage, part: aged.drain_after_1m(
        stage, run=1_000_000 // part, drained=20_000 // part, wakes=100 // part
    ),
    "fairness": lambda stage, part: tenants.fairness(stage, backlog=10_000 // part, rounds=10 // part or 1),
    "bell_cost": lambda stage, part: bell.bell_cost(stage, seconds=2 / part),
}


async def main(cases: list[str], part: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    collect_rarely()
    async with open_stage() as stage:
        await stage.add_tenant(TENANT)
        for case in cases:
            async with asyncio.timeout(_LONGEST_S):
                await CASES[case](stage, part)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of all numbers: shows that it works, not how fast"
    )
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    asyncio.run(main(options.cases or list(CASES), 10 if options.quick else 1))
