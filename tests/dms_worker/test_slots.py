"""Slots are shared out and never overdrawn."""

from dms_worker.slots import Slots


def slots(total: int, **by_type: int) -> Slots:
    return Slots(total, by_type, on_free=lambda: None)


def test_no_more_is_taken_than_the_process_the_type_and_the_caller_allow() -> None:
    assert slots(10, task=3).take(["task"], 100) == {"task": 3}
    assert slots(2, task=3).take(["task"], 100) == {"task": 2}
    assert slots(10, task=3).take(["task"], 1) == {"task": 1}


def test_types_share_evenly_and_leave_what_they_cannot_use() -> None:
    assert slots(10, task=9, other=9).take(["task", "other"], 10) == {"task": 5, "other": 5}
    assert slots(10, task=9, other=2).take(["task", "other"], 10) == {"task": 8, "other": 2}
    assert sum(slots(1, task=9, other=9).take(["task", "other"], 10).values()) == 1


def test_what_is_taken_is_not_free_until_it_is_given_back() -> None:
    freed: list[None] = []
    shared = Slots(3, {"task": 2, "other": 2}, on_free=lambda: freed.append(None))

    shared.take(["task"], 2)

    assert shared.free(["task", "other"]) == {"other"}
    assert shared.take(["task", "other"], 5) == {"other": 1}
    assert shared.free(["task", "other"]) == set()
    shared.give_back({"task": 1, "other": 0})
    assert shared.free(["task", "other"]) == {"task", "other"}
    assert len(freed) == 1
