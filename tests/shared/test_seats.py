from contextlib import ExitStack

import pytest

from nexarch.seats import AtCapacity, Seats


def take_all(seats: Seats, held: ExitStack, tenant: str, person: str) -> int:
    """Take seats for one person until they get no more; returns how many it were."""
    taken = 0
    while True:
        try:
            held.enter_context(seats.take(tenant, person))
        except AtCapacity:
            return taken
        taken += 1


def test_one_person_has_a_third_and_one_tenant_half_and_others_find_room() -> None:
    seats = Seats(120, "downloads")

    with ExitStack() as held:
        of_first = take_all(seats, held, "acme", "first")
        of_colleagues = [take_all(seats, held, "acme", f"colleague {n}") for n in range(100)]
        of_others = [take_all(seats, held, tenant, "somebody") for tenant in ("bolt", "cask", "dune")]

    assert of_first == 40
    assert of_colleagues[0] > 0
    assert of_first + sum(of_colleagues) == 60
    assert all(of_others)


def test_a_newcomer_gets_the_last_seat_and_then_nobody_gets_one() -> None:
    seats = Seats(10, "uploads")

    with ExitStack() as held:
        newcomers = [take_all(seats, held, f"tenant {n}", "somebody") for n in range(20)]
        taken = seats.taken

    assert taken == 10
    assert newcomers[:2] == [4, 2]
    assert newcomers[-1] == 0


def test_who_takes_several_at_once_gets_as_many_as_one_after_the_other() -> None:
    at_once, singly = Seats(130, "bodies"), Seats(130, "bodies")

    with ExitStack() as held:
        for person, tenant, count in [("first", "acme", 25), ("colleague", "acme", 9), ("somebody", "bolt", 20)]:
            for _ in range(count):
                held.enter_context(singly.take(tenant, person))
            held.enter_context(at_once.take(tenant, person, count))
        left = [take_all(singly, held, tenant, person) for tenant, person in [("acme", "first"), ("cask", "other")]]
        for tenant, person, rest in [("acme", "first", left[0]), ("cask", "other", left[1])]:
            with pytest.raises(AtCapacity), at_once.take(tenant, person, rest + 1):
                pass
            held.enter_context(at_once.take(tenant, person, rest))
        taken = at_once.taken

    assert all(left)
    assert taken == 54 + sum(left)
    assert at_once.taken == 0


def test_seats_that_are_given_back_are_free_for_all_again() -> None:
    seats = Seats(3, "uploads")

    with ExitStack() as held:
        first = take_all(seats, held, "acme", "one")
    with pytest.raises(ZeroDivisionError), seats.take("acme", "one"):
        raise ZeroDivisionError
    with ExitStack() as held:
        again = take_all(seats, held, "acme", "one")

    assert (first, again, seats.taken) == (1, 1, 0)


def test_the_only_seat_can_be_taken_and_who_is_refused_learns_when_to_come_again() -> None:
    seats = Seats(1, "downloads")

    with seats.take("acme", "one"), pytest.raises(AtCapacity) as caught, seats.take("bolt", "another"):
        pass

    assert caught.value.status == 503
    assert caught.value.members == {"retry_after_s": 5}
