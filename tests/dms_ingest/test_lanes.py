"""Lanes: order, one at a time, what raises, and a turn for everybody."""

import asyncio
import threading
import time
from functools import partial

import pytest

from dms_ingest.lanes import Lane, _threads


async def test_pieces_run_in_their_order_and_one_at_a_time() -> None:
    lane, order, running = Lane(), list[int](), list[bool]()
    busy = threading.Lock()

    def piece(number: int) -> None:
        running.append(busy.acquire(blocking=False))
        order.append(number)
        busy.release()

    for number in range(200):
        lane.add(partial(piece, number))
    await lane.idle()

    assert order == list(range(200))
    assert all(running)


async def test_a_piece_may_add_one_to_its_own_lane_from_its_thread() -> None:
    lane, order = Lane(), list[str]()

    def first() -> None:
        lane.add(partial(order.append, "third"))
        order.append("first")

    lane.add(first)
    lane.add(lambda: order.append("second"))
    await lane.idle()
    await lane.idle()

    assert order == ["first", "second", "third"]


async def test_who_waits_is_told_what_raised_and_what_came_behind_it_has_run() -> None:
    lane, ran = Lane(), list[int]()

    lane.add(lambda: 1 // 0)
    lane.add(lambda: ran.append(1))
    lane.add(dict[str, str]().popitem)

    with pytest.raises(ZeroDivisionError):
        await lane.idle()
    with pytest.raises(ZeroDivisionError):
        lane.wait()
    assert ran == [1]


async def test_a_waiter_who_is_cancelled_waits_to_the_end() -> None:
    lane, go_on = Lane(), threading.Event()
    lane.add(go_on.wait)
    waiting = asyncio.create_task(lane.idle())
    await asyncio.sleep(0)

    waiting.cancel()
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    go_on.set()

    assert not done
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_lanes_that_never_run_dry_leave_a_turn_to_another() -> None:
    stop, lanes = threading.Event(), [Lane() for _ in range(2 * _threads._max_workers)]

    def again(lane: Lane) -> None:
        if not stop.is_set():
            lane.add(partial(again, lane))
            time.sleep(0.0001)  # what a write takes

    for lane in lanes:
        lane.add(partial(again, lane))
    late = Lane()
    reached = threading.Event()
    late.add(reached.set)

    try:
        assert reached.wait(15)
    finally:
        stop.set()
        for lane in lanes:
            lane.wait()
