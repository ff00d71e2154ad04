"""`nexarch doctor`: what is wrong with the platform, and what to do about it."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from nexarch.cli.client import open_session
from nexarch.cli.doctor_database import check_registry
from nexarch.cli.doctor_host import check_host
from nexarch.cli.doctor_services import check_credentials, check_services
from nexarch.cli.failures import FAILED
from nexarch.cli.findings import Finding
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import show_json, show_table, state
from nexarch.cli.target import Target, resolve_target


@click.command()
@shared_options
@pass_options
def doctor(options: Options) -> None:
    """Say what is wrong and what to do.

    Looks at services, database, clocks and limits. The exit code is 1 if a check fails.
    """
    target = resolve_target(options.endpoints)
    findings = asyncio.run(_examine(target))
    if options.json:
        show_json({"ok": _well(findings), "checks": [asdict(finding) for finding in findings]})
    else:
        show_table(
            ["check", "", "found", "what to do"], [(f.check, state(f.status), f.detail, f.mend) for f in findings]
        )
    if not _well(findings):
        click.get_current_context().exit(FAILED)


async def _examine(target: Target) -> list[Finding]:
    source = Path(target.source)
    async with open_session() as session:
        return [
            *await check_services(session, target),
            *await check_credentials(session, target),
            *await check_registry(target),
            *check_host(source if source.name == "endpoints.json" else None),
        ]


def _well(findings: list[Finding]) -> bool:
    return not any(finding.status == "fail" for finding in findings)
