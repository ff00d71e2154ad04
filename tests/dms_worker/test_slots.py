"""Slots are shared out and never overdrawn."""

from dms_worker.slots import Limits, Slots


def slots(total: int, **by_type: int) -> Slots:
    return Slots(Limits(total=total, by_type=by_type), on_free=lambda: None)


def test_no_more_is_taken_than_the_process_the_type_and_the_caller_allow() -> None:
    assert slots(10, task=3).take("acme", ["task"], 100) == {"task": 3}
    assert slots(2, task=3).take("acme", ["task"], 100) == {"task": 2}
    assert slots(10, task=3).take("acme", ["task"], 1) == {"task": 1}


def test_types_share_evenly_and_leave_what_they_cannot_use() -> None:
    assert slots(10, task=9, other=9).take("acme", ["task", "other"], 10) == {"task": 5, "other": 5}
    assert slots(10, task=9, other=2).take("acme", ["task", "other"], 10) == {"task": 8, "other": 2}
    assert sum(slots(1, task=9, other=9).take("acme", ["task", "other"], 10).values()) == 1


def test_what_is_taken_is_not_free_until_it_is_given_back() -> None:
    freed: list[None] = []
    shared = Slots(Limits(total=3, by_type={"task": 2, "other": 2}), on_free=lambda: freed.append(None))

    shared.take("acme", ["task"], 2)

    assert shared.free("acme", ["task", "other"]) == {"other"}
    assert shared.take("acme", ["task", "other"], 5) == {"other": 1}
    assert shared.free("acme", ["task", "other"]) == set()
    shared.give_back("acme", {"task": 1, "other": 0})
    assert shared.free("acme", ["task", "other"]) == {"task", "other"}
    assert len(freed) == 1


def test_one_tenant_takes_no_more_than_its_share_and_leaves_the_rest_to_the_others() -> None:
    shared = Slots(Limits(total=10, by_type={"task": 10, "other": 10}, per_tenant=6), on_free=lambda: None)

    assert shared.take("a", ["task"], 4) == {"task": 4}
    assert shared.take("a", ["task", "other"], 100) == {"task": 1, "other": 1}
    assert shared.free("a", ["task", "other"]) == set()
    assert shared.take("b", ["task"], 100) == {"task": 4}
    shared.give_back("a", {"other": 1})
    assert shared.take("a", ["task"], 100) == {"task": 1}


def test_of_one_type_a_tenant_takes_no_more_than_the_type_allows() -> None:
    limits = Limits(total=10, by_type={"task": 5, "other": 5}, by_type_per_tenant={"task": 2})
    shared = Slots(limits, on_free=lambda: None)

    assert shared.take("a", ["task", "other"], 100) == {"task": 2, "other": 5}
    assert shared.free("a", ["task"]) == set()
    assert shared.take("b", ["task"], 100) == {"task": 2}
    shared.give_back("a", {"task": 1})
    assert shared.free("a", ["task"]) == {"task"}
