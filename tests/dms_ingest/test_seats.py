from contextlib import ExitStack

import pytest

from dms_ingest.seats import AtCapacity, Seats


def take_all(seats: Seats, held: ExitStack, tenant: str, person: str) -> int:
    """Take seats for one person until they get no more; returns how many it were."""
    taken = 0
    while True:
        try:
            held.enter_context(seats.one(tenant, person))
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


def test_seats_that_are_given_back_are_free_for_all_again() -> None:
    seats = Seats(3, "uploads")

    with ExitStack() as held:
        first = take_all(seats, held, "acme", "one")
    with pytest.raises(ZeroDivisionError), seats.one("acme", "one"):
        raise ZeroDivisionError
    with ExitStack() as held:
        again = take_all(seats, held, "acme", "one")

    assert (first, again, seats.taken) == (1, 1, 0)


def test_the_only_seat_can_be_taken_and_who_is_refused_learns_when_to_come_again() -> None:
    seats = Seats(1, "downloads")

    with seats.one("acme", "one"), pytest.raises(AtCapacity) as caught, seats.one("bolt", "another"):
        pass

    assert caught.value.status == 503
    assert caught.value.members == {"retry_after_s": 5}
