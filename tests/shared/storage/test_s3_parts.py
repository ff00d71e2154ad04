from nexarch.storage.s3_parts import FIRST_PART, Part, part_length

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40


def test_ten_thousand_parts_hold_the_longest_object_there_may_be() -> None:
    lengths = [part_length(number) for number in range(1, 10_001)]

    assert sum(lengths) >= 5 * TIB
    assert min(lengths) == FIRST_PART >= 5 * MIB
    assert max(lengths) <= 5 * GIB
    assert lengths == sorted(lengths)


def test_the_first_thousand_parts_are_short_so_that_memory_is_too() -> None:
    assert {part_length(number) for number in (1, 1000)} == {8 * MIB}
    assert part_length(1001) == 16 * MIB


def test_a_part_takes_what_it_has_room_for_and_tells_its_digest() -> None:
    part = Part(1)

    taken = [part.write(b"abc"), part.write(bytes(FIRST_PART))]

    assert taken == [3, FIRST_PART - 3]
    assert part.is_full
    assert part.rewind().read(5) == b"abc\x00\x00"
    part.close()


def test_a_long_part_waits_in_a_file_that_is_gone_when_it_is_closed() -> None:
    part = Part(2001)
    part.write(b"abc")

    body = part.rewind()

    assert body.fileno() > 0
    assert body.read() == b"abc"
    assert part.sha256 == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    part.close()
    assert body.closed
