"""README.md, CONTRIBUTING.md and the pages in docs/ are true: what they say to type works, what they name is there."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from support.command import Command
from support.up import Up, free_ports_in_a_row, running_up

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


async def run_as_written(up: Up, base: int, commands: str, *, cwd: Path) -> str:
    """What commands of a page print where `make run` has the first of its ports at `base`."""
    commands = commands.replace(":8081", f":{base + 1}").replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    variables = {"PATH": os.environ["PATH"], "HOME": str(up.folder)}
    variables["NEXARCH_ENDPOINTS"] = str(up.folder / "endpoints.json")
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", commands,
        cwd=cwd, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(120):
        output = (await shell.communicate())[0].decode()
    assert shell.returncode == 0, output
    return output


def examples(text: str) -> list[str]:
    """The blocks of shell commands."""
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


@pytest.mark.database
async def test_the_upload_with_curl_works_as_it_is_written(tmp_path: Path, server_folder: Path) -> None:
    base = free_ports_in_a_row()
    section = (ROOT / "README.md").read_text().split("## A first upload with curl")[1]

    async with running_up(Command(tmp_path), server_folder / "platform", base) as up:
        output = await run_as_written(up, base, examples(section)[0], cwd=ROOT)

    assert "processed" in output.splitlines()
    assert '"document_id"' in output, "the search finds the document"
    sent, received = re.findall(r"^([0-9a-f]{64}) ", output, re.MULTILINE)
    assert sent == received


@pytest.mark.database
async def test_the_page_on_documents_works_as_it_is_written(tmp_path: Path, server_folder: Path) -> None:
    base = free_ports_in_a_row()
    commands = "".join(examples((ROOT / "docs/documents.md").read_text()))

    async with running_up(Command(tmp_path), server_folder / "platform", base) as up:
        output = await run_as_written(up, base, commands, cwd=tmp_path)

    lines = output.splitlines()
    assert "contract.txt" in output, "the trash is shown"
    assert [line for line in lines if line in {"3", "1", "2031-12-31"}] == ["3", "1", "2031-12-31"]
    assert "Three months of notice." in lines, "the link gives what was restored"
    assert '"action": "document.restored"' in output


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
