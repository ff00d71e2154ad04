"""Who waits for one of few places gets it by tenant in turn, and who goes away takes no place along."""

import asyncio

from dms_ingest.turns import Turns


async def test_a_newcomer_comes_after_one_of_a_crowd_and_each_tenant_keeps_its_order() -> None:
    turns, order, ended = Turns(1), list[str](), asyncio.Event()

    async def work(tenant: str, name: str) -> None:
        async with turns.one(tenant):
            order.append(name)
            await ended.wait()

    crowd = [asyncio.create_task(work("acme", f"acme {number}")) for number in range(5)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(work(name, name)) for name in ("bolt", "cask")]
    await asyncio.sleep(0)
    ended.set()
    await asyncio.gather(*crowd, *others)

    assert order == ["acme 0", "acme 1", "bolt", "cask", "acme 2", "acme 3", "acme 4"]


async def test_so_many_work_at_once_and_no_more() -> None:
    turns, at_once, most = Turns(3), 0, 0

    async def work(number: int) -> None:
        nonlocal at_once, most
        async with turns.one(f"tenant {number % 4}"):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1

    await asyncio.gather(*(work(number) for number in range(20)))

    assert most == 3


async def test_who_is_cancelled_keeps_no_place_neither_waiting_nor_just_when_it_is_given() -> None:
    turns, ended = Turns(1), asyncio.Event()

    async def work() -> None:
        async with turns.one("acme"):
            await ended.wait()

    async def work_first() -> None:
        await work()
        given.cancel()  # which has the place now, and does not know it yet

    working = asyncio.create_task(work_first())
    waits, given, last = (asyncio.create_task(work()) for _ in range(3))
    await asyncio.sleep(0)
    waits.cancel()
    ended.set()
    await working

    async with asyncio.timeout(15):
        await last
        async with turns.one("bolt"):
            pass
    assert waits.cancelled()
    assert given.cancelled()
