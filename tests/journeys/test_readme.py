"""README.md and CONTRIBUTING.md are true: what they say to type works, and what they name is there."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from support.command import Command
from support.up import free_ports_in_a_row, running_up

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "docs/cli.md", "docs/uploads.md"]


@pytest.mark.database
async def test_the_upload_with_curl_works_as_it_is_written(tmp_path: Path, server_folder: Path) -> None:
    base = free_ports_in_a_row()
    section = (ROOT / "README.md").read_text().split("## A first upload with curl")[1]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    commands = commands.replace(":8081", f":{base + 1}").replace(".venv/bin/", f"{Path(sys.executable).parent}/")

    async with running_up(Command(tmp_path), server_folder / "platform", base) as up:
        variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        variables["NEXARCH_ENDPOINTS"] = str(up.folder / "endpoints.json")
        shell = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", commands,
            cwd=ROOT, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(60):
            output = (await shell.communicate())[0].decode()

    assert shell.returncode == 0, output
    assert "processed" in output.splitlines()
    assert '"document_id"' in output, "the search finds the document"
    sent, received = re.findall(r"^([0-9a-f]{64}) ", output, re.MULTILINE)
    assert sent == received


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]

    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]

    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_and_make_target_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", text))

    missing = [path for path in named if not any(ROOT.glob(path)) and not _in_a_project(path)]

    assert missing == []
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets


def _in_a_project(path: str) -> bool:
    """Whether a path begins with a package's name, as `nexarch/jobs.py`."""
    return any(ROOT.glob(f"shared/{path}")) or any(ROOT.glob(f"services/*/{path}"))
