"""A round that shows nothing of its fault is itself wrong."""

from collections import Counter
from contextlib import nullcontext

from faults.client import Seen
from faults.faults import Fault
from faults.run import not_felt

FAULT = Fault(name="object store away", standing=lambda _stack: nullcontext(), shows=["503 storage-away"])


def test_a_round_is_wrong_in_which_no_upload_began_while_the_fault_stood() -> None:
    seen = Seen(allowed=Counter({"503 storage-away": 3}), uploads_meanwhile=0, requests_meanwhile=7)

    (problem,) = not_felt(FAULT, seen)

    assert "no upload began" in problem


def test_a_round_is_wrong_in_which_nobody_met_what_the_fault_shows() -> None:
    seen = Seen(allowed=Counter({"503 core-api-away": 3}), uploads_meanwhile=2, requests_meanwhile=7)

    (problem,) = not_felt(FAULT, seen)

    assert "503 storage-away" in problem


def test_a_round_in_which_uploads_began_and_met_the_fault_is_not_wrong() -> None:
    seen = Seen(allowed=Counter({"503 storage-away": 3}), uploads_meanwhile=2, requests_meanwhile=7)

    assert not_felt(FAULT, seen) == []
