"""What may become a job, and what a key makes of a second one."""

import asyncio
from typing import Any

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import NewJob
from support.claims import claim, claim_one

pytestmark = pytest.mark.database


async def test_a_rolled_back_enqueue_leaves_no_job(two_conns: tuple[Connection, Connection]) -> None:
    conn, _ = two_conns
    transaction = conn.transaction()
    await transaction.start()
    await jobs.enqueue(conn, "task", {})

    await transaction.rollback()

    assert await claim(conn) == []


async def test_a_payload_of_a_mebibyte_is_stored(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {"text": "x" * 2**20})

    job = await claim_one(conn)

    assert len(job.payload["text"]) == 2**20


@pytest.mark.parametrize(
    "payload",
    [
        {"text": "a\x00b"},
        {"nested": [{"\x00": 1}]},
        {"text": "\ud800"},
        {"number": float("nan")},
        {"number": float("inf")},
        {"bytes": b"no"},
    ],
)
async def test_a_payload_that_postgres_cannot_hold_is_refused(conn: Connection, payload: dict[str, Any]) -> None:
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue(conn, "task", payload)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_type": "Not A Type"},
        {"job_type": "with\x00nul"},
        {"idempotency_key": ""},
        {"idempotency_key": "\udfff"},
        {"priority": 70_000},
        {"max_attempts": 0},
    ],
)
async def test_a_job_that_breaks_a_rule_of_the_table_is_refused(conn: Connection, wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"job_type": "task", "payload": {}} | wrong

    with pytest.raises(jobs.JobRefused) as refused:
        async with conn.transaction():
            await jobs.enqueue(conn, **arguments)
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue_many(conn, [NewJob(**arguments)])

    assert refused.value.code == "job-refused"


async def test_an_idempotency_key_gives_the_first_job_for_ever(conn: Connection) -> None:
    first = await jobs.enqueue(conn, "task", {"n": 1}, idempotency_key="k")
    await jobs.complete(conn, await claim(conn))

    second = await jobs.enqueue(conn, "task", {"n": 2}, idempotency_key="k")

    assert second == first
    assert await claim(conn) == []


async def test_a_key_that_another_transaction_is_adding_is_waited_for(
    two_conns: tuple[Connection, Connection],
) -> None:
    first_conn, second_conn = two_conns
    transaction = first_conn.transaction()
    await transaction.start()
    first = await jobs.enqueue(first_conn, "task", {}, idempotency_key="k")

    waiting = asyncio.create_task(jobs.enqueue(second_conn, "task", {}, idempotency_key="k"))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    await transaction.commit()

    assert done == set()
    assert await asyncio.wait_for(waiting, 5) == first


async def test_many_jobs_come_back_in_the_order_given(conn: Connection) -> None:
    known = await jobs.enqueue(conn, "task", {"n": -1}, idempotency_key="known")
    new = [NewJob("task", {"n": n}, idempotency_key=f"k{9 - n}" if n % 2 else None) for n in range(10)]
    repeated = [NewJob("task", {"n": 99}, idempotency_key="k8"), NewJob("task", {}, idempotency_key="known")]

    ids = await jobs.enqueue_many(conn, [*new, *repeated])

    assert len(set(ids[:10])) == 10
    assert [(await jobs.get_job(conn, job_id)).payload["n"] for job_id in ids[:10]] == list(range(10))
    assert ids[10] == ids[1]
    assert ids[11] == known


async def test_callers_that_add_the_same_keys_in_opposite_orders_do_not_deadlock(
    two_conns: tuple[Connection, Connection],
) -> None:
    for number in range(5):
        batch = [NewJob("task", {}, idempotency_key=f"{number}-{key}") for key in range(2000)]

        forwards, backwards = await asyncio.gather(
            jobs.enqueue_many(two_conns[0], batch), jobs.enqueue_many(two_conns[1], batch[::-1])
        )

        assert forwards == backwards[::-1]
