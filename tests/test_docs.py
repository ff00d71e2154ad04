"""The documents that are written from the code are those of today's code, and the others know what there is."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from nexarch import job_types

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_openapi_documents_and_problems_are_equal_to_the_code() -> None:
    check = subprocess.run([sys.executable, DOCS / "write.py", "--check"], capture_output=True, text=True, check=False)

    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted((DOCS / "openapi").glob("*.json")), ids=lambda path: path.stem)
def test_each_openapi_document_is_valid(path: Path) -> None:
    validate(json.loads(path.read_text()))


def test_docs_queue_names_every_job_type() -> None:
    text = (DOCS / "queue.md").read_text()
    constants = {name: value for name, value in vars(job_types).items() if name.isupper()}
    names = {value for value in constants.values() if isinstance(value, str)}

    assert {name for name in names if f"`{name}`" not in text} == set()
    assert len(names) > 5


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = sorted(int(path.name[:4]) for path in (DOCS / "decisions").glob("*.md"))

    assert numbers == list(range(1, len(numbers) + 1))


def test_every_link_of_a_page_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    links = [
        (page, link.partition("#")[0])
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if not re.match(r"[a-z]+:|#", link)
    ]

    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []
    assert len(links) > 20
