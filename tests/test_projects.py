"""Each project lists what it imports itself, and nothing else."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECTS = [ROOT / "shared", *sorted((ROOT / "services").iterdir())]


def listed(project: Path) -> set[str]:
    """The distributions that a project asks for, extras included."""
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    lists = [table["dependencies"], *table.get("optional-dependencies", {}).values()]
    return {_normal(re.split(r"[\[<>=~! ]", item)[0]) for items in lists for item in items}


def imported(project: Path) -> set[str]:
    """The distributions that its modules come from."""
    (package,) = (folder for folder in project.iterdir() if (folder / "__init__.py").exists())
    distributions = {**packages_distributions(), "nexarch": ["nexarch"]}
    names = {name for module in package.rglob("*.py") for name in _imports(module)}
    foreign = names - set(sys.stdlib_module_names) - {package.name}
    return {_normal(distributions[name][0]) for name in foreign}


def _imports(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_project_lists_what_it_imports(project: Path) -> None:
    assert listed(project) == imported(project)
