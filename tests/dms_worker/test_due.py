"""Who is next: one after the other, nobody twice at once, nobody forgotten."""

import asyncio
import random
from collections.abc import Iterable

import pytest

from dms_worker.due import DueTenants, Reason, Turn


async def take(due: DueTenants) -> Turn:
    turn = await asyncio.wait_for(due.take(), 5)
    assert turn is not None
    return turn


def nobody_waits(due: DueTenants) -> bool:
    return len(due) == 0


async def test_tenants_have_their_turns_in_the_order_of_their_marks() -> None:
    due = DueTenants(["task"])
    for tenant in ("a", "b", "a", "c"):
        due.mark(tenant, Reason.RING)

    assert [(await take(due)).tenant for _ in range(3)] == ["a", "b", "c"]
    assert nobody_waits(due)


async def test_a_tenant_with_more_work_goes_to_the_end_of_the_line() -> None:
    due = DueTenants(["task"])
    due.mark("a", Reason.RING)
    due.mark("b", Reason.RING)
    turn = await take(due)

    due.again(turn, {"task"})
    due.finish(turn)

    assert [(await take(due)).tenant for _ in range(2)] == ["b", "a"]


async def test_a_tenant_that_has_more_work_is_known_to_until_it_is_through() -> None:
    due = DueTenants(["task"])
    due.mark("a", Reason.RING)
    first = await take(due)

    due.again(first, {"task"})
    due.mark("a", Reason.RING)
    due.finish(first)
    second = await take(due)
    due.mark("a", Reason.RING)
    due.again(second, {"task"})
    due.finish(second)
    second = await take(due)
    due.stand_aside(second, {"task"})
    due.finish(second)
    due.slots_freed(lambda _tenant, job_types: set(job_types), 1)
    third = await take(due)
    due.finish(third)
    due.mark("a", Reason.RING)
    anew = await take(due)

    assert [turn.more_known for turn in (first, second, third, anew)] == [False, True, True, False]


async def test_a_mark_is_taken_by_one_of_those_who_wait_and_the_end_frees_all() -> None:
    due = DueTenants(["task"])
    waiting = [asyncio.create_task(due.take()) for _ in range(3)]
    await asyncio.sleep(0)

    due.mark("a", Reason.RING)
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    due.close()
    ended = await asyncio.wait_for(asyncio.gather(*others), 5)

    assert [turn.tenant for task in done if (turn := task.result())] == ["a"]
    assert ended == [None, None]


@pytest.mark.parametrize("seed", range(10))
async def test_nobody_is_left_waiting_while_a_tenant_stands_in_the_line_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    due = DueTenants(["task"])
    turns: list[tuple[Turn, asyncio.Event]] = []
    forgotten = 0

    async def take_turns() -> None:
        while (turn := await due.take()) is not None:
            end = asyncio.Event()
            turns.append((turn, end))
            await end.wait()

    takers = [asyncio.create_task(take_turns()) for _ in range(4)]
    for _ in range(300):
        for _ in range(chance.randrange(4)):
            match chance.randrange(5):
                case 0 | 1:
                    due.mark(chance.choice("abcdef"), Reason.RING)
                case 2:
                    due.slots_freed(lambda _tenant, job_types: set(job_types), chance.randrange(3))
                case _ if turns:
                    turn, end = turns.pop(chance.randrange(len(turns)))
                    chance.choice([due.again, due.stand_aside, nothing_more])(turn, {"task"})
                    due.finish(turn)
                    end.set()
        patience = chance.choice([0, 1, 10])
        for _ in range(patience):
            await asyncio.sleep(0)
        if patience == 10:
            forgotten += due.others_wait and len(turns) < len(takers)
        assert len({turn.tenant for turn, _ in turns}) == len(turns)
    due.close()
    for _, end in turns:
        end.set()
    await asyncio.wait_for(asyncio.gather(*takers), 5)

    assert forgotten == 0


def nothing_more(_turn: Turn, _job_types: set[str]) -> None:
    """The turn found nothing."""


async def test_a_mark_during_a_turn_brings_another_turn_but_not_beside_it() -> None:
    due = DueTenants(["task"])
    due.mark("a", Reason.RING)
    turn = await take(due)
    due.mark("a", Reason.RING)

    waiting = asyncio.create_task(due.take())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    others_wait_during_the_turn = due.others_wait
    due.finish(turn)

    assert not done
    assert not others_wait_during_the_turn
    second = await asyncio.wait_for(waiting, 5)
    assert second is not None
    assert second.tenant == "a"


async def test_who_waits_for_a_slot_comes_back_when_one_of_its_types_is_free() -> None:
    due = DueTenants(["task", "other"])
    due.mark("a", Reason.RING)
    turn = await take(due)
    due.stand_aside(turn, {"task"})
    due.finish(turn)

    def only_other(_tenant: str, job_types: Iterable[str]) -> set[str]:
        return {"other"} & set(job_types)

    due.slots_freed(only_other, 9)
    still_aside = due.types_aside("a")
    due.slots_freed(lambda _tenant, job_types: set(job_types), 9)

    assert still_aside == {"task"}
    back = await take(due)
    assert (back.tenant, back.job_types) == ("a", {"task"})


async def test_the_earlier_of_two_times_counts() -> None:
    due = DueTenants(["task"])
    due.mark_later("a", 0.02, Reason.TIMER)
    due.mark_later("a", 3600, Reason.SWEEP)
    due.mark_later("b", 3600, Reason.SWEEP)
    due.mark_later("b", 0.04, Reason.TIMER)

    turns = [await take(due) for _ in range(2)]

    assert [(turn.tenant, turn.reason) for turn in turns] == [("a", Reason.TIMER), ("b", Reason.TIMER)]
    due.close()


async def test_after_the_close_nobody_has_a_turn() -> None:
    due = DueTenants(["task"])
    waiting = asyncio.create_task(due.take())
    await asyncio.sleep(0)

    due.close()
    due.mark("a", Reason.RING)
    due.mark_later("b", 0, Reason.TIMER)

    assert await asyncio.wait_for(waiting, 5) is None
    assert await due.take() is None


async def test_no_more_tenants_come_back_than_slots_are_free() -> None:
    due = DueTenants(["task"])
    for tenant in ("a", "b", "c"):
        due.stand_aside(Turn(tenant, set(), Reason.RING), {"task"})

    due.slots_freed(lambda tenant, job_types: set(job_types) if tenant != "a" else set(), 1)

    assert [due.types_aside(tenant) for tenant in ("a", "b", "c")] == [{"task"}, set(), {"task"}]
