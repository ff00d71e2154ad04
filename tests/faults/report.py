"""The result of a run for people and for programs, and docs/faults.md."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faults.client import Seen
from faults.run import CLIENTS, Outcome, Plan

PAGE = Path(__file__).parents[2] / "docs/faults.md"

TITLES = {"up": "`nexarch up`", "compose": "Containers"}
_HEADERS = (
    *("what was done", "begun meanwhile", "clients saw, but for success", "ready again", "all done"),
    *("new orphans", "wrong"),
)


def table(outcomes: Sequence[Outcome]) -> str:
    """A table in Markdown, which people can read as it stands."""
    rows = [_HEADERS, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def as_json(plan: Plan, outcomes: Sequence[Outcome], versions: Mapping[str, str]) -> str:
    """One JSON object."""
    content: dict[str, Any] = {
        "documents": plan.documents,
        "largest_bytes": plan.largest,
        "away_s": plan.times.away_s,
        "paused_s": plan.times.paused_s,
        "versions": dict(versions),
        "faults": [asdict(outcome) | {"problems": outcome.all_problems()} for outcome in outcomes],
    }
    return json.dumps(content, ensure_ascii=False)


def write_page(where: str, plan: Plan, outcomes: Sequence[Outcome], versions: Mapping[str, str]) -> None:
    """Replace the part of docs/faults.md about the stack that is named `where`."""
    page = PAGE.read_text()
    section = _section(where, plan, outcomes, versions)
    pattern = re.compile(rf"^## {re.escape(where)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    replaced, count = pattern.subn(lambda _match: section, page)
    PAGE.write_text((replaced if count else f"{page.rstrip()}\n\n{section}").rstrip() + "\n")


def _section(where: str, plan: Plan, outcomes: Sequence[Outcome], versions: Mapping[str, str]) -> str:
    runs = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"## {where}\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, {runs}.\n{CLIENTS} clients, {plan.documents} documents from 1 KiB to "
        f"{plan.largest >> 20} MiB; away: {plan.times.away_s:g} s, paused: {plan.times.paused_s:g} s.\n\n"
        f"{table(outcomes)}\n\n"
    )


def _row(outcome: Outcome) -> tuple[str, ...]:
    seen = ", ".join(f"{count} × {what}" for what, count in sorted(outcome.seen.allowed.items())) or "nothing"
    problems = outcome.all_problems()
    return (
        outcome.fault,
        _meanwhile(outcome.seen),
        seen,
        _seconds(outcome.ready_s),
        _seconds(outcome.done_s),
        str(outcome.new_orphans),
        str(len(problems)) if problems else "nothing",
    )


def _meanwhile(seen: Seen) -> str:
    done = "all" if seen.done_meanwhile == seen.requests_meanwhile else str(seen.done_meanwhile)
    return f"{seen.uploads_meanwhile} uploads; {seen.requests_meanwhile} requests, {done} done"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
