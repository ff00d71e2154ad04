"""The command: see the package."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from faults import report
from faults.compose_stack import running_compose_stack
from faults.faults import FAULTS, Times
from faults.run import FULL, Plan, Run
from faults.stack import Stack
from faults.up_stack import running_up_stack


def main() -> int:
    """Run and report; 0 if nothing was wrong."""
    arguments = _parser().parse_args()
    faults = [fault for fault in FAULTS if arguments.only.lower() in fault.name.lower()]
    plan = replace(
        FULL,
        documents=arguments.documents or FULL.documents * len(faults) // len(FAULTS),
        largest=round(arguments.largest * (1 << 20)),
        times=Times(arguments.away, arguments.paused),
        faults=faults,
    )
    return asyncio.run(_run(arguments, plan))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faults", description="Break the platform while clients upload, and check.")
    parser.add_argument("stack", nargs="?", choices=["up", "compose"], default="up")
    parser.add_argument("--documents", type=int, help=f"how many (default: {FULL.documents})")
    parser.add_argument("--largest", type=float, default=FULL.largest >> 20, help="MiB (default: %(default)s)")
    parser.add_argument("--away", type=float, default=FULL.times.away_s, help="seconds (default: %(default)s)")
    parser.add_argument("--paused", type=float, default=FULL.times.paused_s, help="seconds (default: %(default)s)")
    parser.add_argument("--only", default="", help="only faults whose name holds this")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and what goes on to stderr")
    parser.add_argument("--write", action="store_true", help="write the table to docs/faults.md")
    return parser


async def _run(arguments: argparse.Namespace, plan: Plan) -> int:
    out = sys.stderr if arguments.json else sys.stdout
    async with _stack(arguments.stack, plan) as stack:
        run = Run(stack, plan, lambda text: print(text, file=out, flush=True))
        await run.all_faults()
        versions = await stack.versions()
    print(report.as_json(plan, run.outcomes, versions) if arguments.json else "\n" + report.table(run.outcomes))
    if arguments.write:
        report.write_page(report.TITLES[arguments.stack], plan, run.outcomes, versions)
    return 1 if any(outcome.all_problems() for outcome in run.outcomes) else 0


@asynccontextmanager
async def _stack(name: str, plan: Plan) -> AsyncIterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="nexarch-faults-", ignore_cleanup_errors=True) as folder:
        running = running_up_stack if name == "up" else running_compose_stack
        async with running(Path(folder), plan.staging_bytes) as stack:
            yield stack


if __name__ == "__main__":
    sys.exit(main())
