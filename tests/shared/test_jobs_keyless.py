"""Jobs without a key get ids as Postgres would have made them, in the order given."""

import time

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import JobRefused, NewJob
from nexarch.jobs.keyless import uuid_of_now, uuids_in_order


def test_ids_are_different_uuids_of_version_7_in_order_and_of_this_moment() -> None:
    before = time.time_ns() // 1_000_000

    ids = uuids_in_order(10_000)

    assert ids == sorted(set(ids))
    assert len(ids) == 10_000
    assert {(value.version, value.variant) for value in ids} == {(7, "specified in RFC 4122")}
    assert before <= ids[0].int >> 80 <= time.time_ns() // 1_000_000


def test_one_id_after_the_other_is_like_many_at_once() -> None:
    (before,) = uuids_in_order(1)

    ids = [uuid_of_now() for _ in range(1000)]

    assert [before, *ids] == sorted({before, *ids})
    assert {(value.version, value.variant) for value in ids} == {(7, "specified in RFC 4122")}
    assert ids[-1] < uuids_in_order(1)[0]


@pytest.mark.database
async def test_postgres_reads_them_as_version_7_and_keeps_their_order(tenant_conn: Connection) -> None:
    given = await jobs.enqueue_many(tenant_conn, [NewJob("task", {"place": place}) for place in range(500)])

    rows = await tenant_conn.fetch(
        "SELECT id, uuid_extract_version(id) AS version, payload FROM processing_jobs ORDER BY id"
    )

    assert [row["id"] for row in rows] == given
    assert [row["payload"]["place"] for row in rows] == list(range(500))
    assert {row["version"] for row in rows} == {7}


@pytest.mark.database
async def test_one_after_the_other_they_have_ids_in_that_order(tenant_conn: Connection) -> None:
    given = [await jobs.enqueue(tenant_conn, "task", {}) for _ in range(20)]

    rows = await tenant_conn.fetch("SELECT id, uuid_extract_version(id) AS version FROM processing_jobs ORDER BY id")

    assert [row["id"] for row in rows] == given
    assert {row["version"] for row in rows} == {7}


@pytest.mark.database
@pytest.mark.parametrize(
    "like",
    [NewJob("Wrong Type", {}), NewJob("0task", {}), NewJob("task", {}, priority=2**20), NewJob("task", {"": "\x00"})],
)
async def test_jobs_alike_are_refused_like_one(tenant_conn: Connection, like: NewJob) -> None:
    with pytest.raises(JobRefused):
        await jobs.enqueue_many(tenant_conn, [like, like])
