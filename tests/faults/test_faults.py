"""The platform under every fault, with fewer and smaller files and shorter outages than `make faults` has."""

from pathlib import Path

import pytest

from faults.run import SHORT, Run
from faults.up_stack import running_up_stack

pytestmark = [pytest.mark.database, pytest.mark.object_store]


async def test_whatever_dies_or_is_away_no_document_is_lost_and_nobody_has_to_help(server_folder: Path) -> None:
    async with running_up_stack(server_folder, staging_bytes=SHORT.staging_bytes) as stack:
        run = Run(stack, SHORT, print)
        await run.all_faults()

    assert {outcome.fault: problems for outcome in run.outcomes if (problems := outcome.all_problems())} == {}
    assert sum(outcome.uploads for outcome in run.outcomes) == SHORT.documents
