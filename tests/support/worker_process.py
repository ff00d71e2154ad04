"""A worker as a process of its own, to be killed: `worker_process.py BUS_DSN TENANT_DSN STALE_S`.

Its handlers write a line for each entry to stdout, so that a test knows when to strike.
"""

import asyncio
import os
import signal
import sys

from dms_worker.job_types import JobContext, JobType
from nexarch import logs
from support.working import working


async def note(ctx: JobContext) -> None:
    """Say that the job is being worked on, then take the time that it asks for."""
    print(f"{ctx.job.id} {ctx.job.attempts}", flush=True)  # noqa: T201 - the test reads it
    await asyncio.sleep(ctx.job.payload.get("seconds", 0))


async def die(_ctx: JobContext) -> None:
    """End the process at once, as the kernel does when memory is short."""
    os._exit(9)


async def main(bus_dsn: str, tenant_dsn: str, stale_after_s: float) -> None:
    """Work until SIGTERM."""
    logs.configure("dms-worker")
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    job_types = [JobType(name="note", handler=note), JobType(name="die", handler=die)]
    async with working(job_types, {"acme": tenant_dsn}, bus_dsn, stale_after_s=stale_after_s, grace_s=0.2):
        print("ready", flush=True)  # noqa: T201
        await told.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
