"""Which files go up when."""

import pytest

from faults.documents import make_files
from faults.round import Shares


@pytest.mark.parametrize(("count", "shares"), [(1, (0, 0, 1)), (4, (1, 1, 2)), (8, (2, 2, 4)), (17, (4, 2, 11))])
def test_half_of_the_files_at_least_begin_while_the_fault_stands(count: int, shares: tuple[int, int, int]) -> None:
    files = make_files("round", count, 1 << 20) if count > 1 else make_files("round", 2, 1 << 20)[:1]

    found = Shares.of(files, clients=4)

    assert (len(found.before), len(found.under_way), len(found.meanwhile)) == shares
    assert sorted([*found.before, *found.under_way, *found.meanwhile], key=files.index) == files


def test_the_largest_ones_are_under_way_when_it_comes() -> None:
    files = make_files("round", 16, 1 << 20)

    found = Shares.of(files, clients=4)

    assert {file.size for file in found.under_way} == set(sorted(file.size for file in files)[-2:])
