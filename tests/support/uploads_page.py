"""docs/uploads.md, whose examples the tests run as they are written."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "uploads.md").read_text()


def example(heading: str, language: str) -> str:
    """The first block of code under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1]
    match = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert match is not None, heading
    return match[1]
