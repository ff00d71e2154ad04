"""Objects that no row knows: planted ones, in a store on the local disk."""

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faults.orphans import Orphans, new_orphans
from faults.stack import StoredFile
from nexarch.storage.local import LocalStorage

BEGAN_AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def objects(tmp_path: Path) -> dict[str, StoredFile]:
    """A minute before and after the beginning something was put that has a row, and something that has none."""
    store = LocalStorage(tmp_path)
    await store.ensure_bucket("acme")
    for key, put_at in [
        ("kept/old", BEGAN_AT - MINUTE),
        ("kept/young", BEGAN_AT + MINUTE),
        ("stray/old", BEGAN_AT - MINUTE),
        ("stray/young", BEGAN_AT + MINUTE),
    ]:
        await store.put("acme", key, _bytes())
        os.utime(tmp_path / "acme" / key, (put_at.timestamp(), put_at.timestamp()))
    async with aclosing(store.list_objects("acme")) as listing:
        listed = {stored.key: StoredFile(stored.size_bytes, stored.modified_at) async for stored in listing}
    store.close()
    return listed


async def _bytes() -> AsyncIterator[bytes]:
    yield b"sealed"


def test_one_from_before_and_one_from_after_are_told_apart(objects: dict[str, StoredFile]) -> None:
    found = new_orphans(objects, {"kept/old", "kept/young"}, set(), since=BEGAN_AT)

    assert found == Orphans(young={"stray/young"}, old={"stray/old"})


def test_what_was_found_before_is_not_found_again(objects: dict[str, StoredFile]) -> None:
    found = new_orphans(objects, {"kept/old", "kept/young"}, {"stray/old"}, since=BEGAN_AT)

    assert found == Orphans(young={"stray/young"}, old=set())


@pytest.mark.parametrize(("cut", "problems"), [(0, 1), (1, 0)])
def test_a_young_one_is_wrong_unless_a_complete_may_have_been_cut(cut: int, problems: int) -> None:
    found = Orphans(young={"stray/young"}, old=set())

    assert len(found.unexplained(cut)) == problems


def test_an_old_one_is_wrong_whatever_was_cut() -> None:
    found = Orphans(young=set(), old={"stray/old"})

    assert found.unexplained(cut=100) == ["stray/old: the object is there, and its row has gone"]
