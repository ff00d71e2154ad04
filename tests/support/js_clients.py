"""Stock JavaScript clients from npm, run by node."""

import asyncio
import fcntl
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "clients"


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What a client says of its upload."""

    url: str
    document_id: str | None


def install(*targets: str) -> None:
    """Make `clients`, the packages of tests/clients, or `chromium`; installed once for all workers."""
    with (CLIENTS / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--no-print-directory", *targets], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def bundle(entry: Path) -> bytes:
    """A module and all it imports as one script for pages, which puts what it exports into `examples`."""
    return subprocess.run(
        [CLIENTS / "node_modules/.bin/esbuild", entry, "--bundle", "--format=iife", "--global-name=examples"],
        cwd=CLIENTS, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip


async def upload(client: str, task: dict[str, Any]) -> Uploaded:
    """Upload a file with `tus-js-client` or `uppy`; `task` is what tests/clients/upload.mjs takes."""
    output = await run_node(CLIENTS / "upload.mjs", client, json.dumps(task))
    answer = json.loads(output)
    return Uploaded(answer["url"], answer["documentId"])


async def run_node(*command: str | Path) -> str:
    """What a script prints; AssertionError with its complaints if it fails."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "--import",
        CLIENTS / "browser.mjs",
        *command,
        cwd=CLIENTS,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(90):
            output, complaints = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, complaints.decode()
    return output.decode()
