"""Many readings of few open files: every line gets its own bytes, and who stands still is in nobody's way."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from dms_ingest.readings import Readings
from nexarch.errors import NotFound

CONTENT = os.urandom(50_000)


class Store:
    """Gives out CONTENT in chunks which all lie in one buffer, as a store does; counts what is open."""

    def __init__(self, chunk: int = 1000) -> None:
        self.chunk = chunk
        self.open = 0
        self.most_open = 0
        self.opened_at: list[int] = []

    @asynccontextmanager
    async def open_at(self, position: int) -> AsyncIterator[AsyncIterator[memoryview]]:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.opened_at.append(position)
        try:
            yield self._chunks(position)
        finally:
            await asyncio.sleep(0)  # closing takes a while
            self.open -= 1

    async def _chunks(self, position: int) -> AsyncIterator[memoryview]:
        buffer = memoryview(bytearray(self.chunk))
        for start in range(position, len(CONTENT), self.chunk):
            await asyncio.sleep(0)
            piece = CONTENT[start : start + self.chunk]
            buffer[: len(piece)] = piece
            yield buffer[: len(piece)]


async def take_all(readings: Readings, store: Store, start: int = 0, pause_s: float | None = None) -> bytes:
    received = bytearray()
    async with aclosing(readings.read(store.open_at, start, len(CONTENT))) as pieces:
        async for piece in pieces:
            if pause_s is not None:
                await asyncio.sleep(pause_s)
            received += piece
    return bytes(received)


async def test_a_crowd_gets_every_byte_with_few_files_open() -> None:
    store, readings = Store(), Readings(3, piece=700, turn=3000)
    starts = [number * 1777 % len(CONTENT) for number in range(20)]
    pauses = [None, 0, 0.001]

    received = await asyncio.gather(
        *(take_all(readings, store, start, pauses[number % 3]) for number, start in enumerate(starts))
    )

    assert received == [CONTENT[start:] for start in starts]
    assert (store.most_open, store.open) == (3, 0)


async def test_few_readings_are_opened_once_and_get_the_chunks_as_they_are() -> None:
    store, readings = Store(), Readings(3, piece=10)

    async with aclosing(readings.read(store.open_at, 0, len(CONTENT))) as pieces:
        sizes = {len(piece) async for piece in pieces}
    await asyncio.gather(*(take_all(readings, store, pause_s=0) for _ in range(3)))

    assert sizes == {1000}
    assert store.opened_at == [0] * 4


async def test_the_line_that_stands_still_the_longest_gives_way_and_goes_on_where_it_was() -> None:
    store, readings = Store(), Readings(2)
    first, second = (readings.read(store.open_at, 0, len(CONTENT)) for _ in range(2))
    begun = [bytes(await anext(first)), bytes(await anext(second)), bytes(await anext(first))]

    newcomer = await take_all(readings, store)  # while both stand still
    opened = list(store.opened_at)
    rest = [b"".join([bytes(piece) async for piece in pieces]) for pieces in (first, second)]

    assert newcomer == CONTENT
    assert opened == [0, 0, 0]
    assert store.opened_at[3:] == [1000], "the second gave way, the first did not"
    assert [begun[0] + begun[2] + rest[0], begun[1] + rest[1]] == [CONTENT, CONTENT]
    assert (store.most_open, store.open) == (2, 0)


async def test_what_a_line_was_given_stays_as_it_is_when_it_gives_way() -> None:
    store, readings = Store(), Readings(1)

    async with aclosing(readings.read(store.open_at, 0, len(CONTENT))) as pieces:
        piece = await anext(pieces)
        await take_all(readings, store)

        assert piece == CONTENT[:1000]


async def test_lines_that_never_stand_still_take_turns() -> None:
    store, readings, ended = Store(), Readings(1, turn=4000), list[str]()

    async def take(name: str, start: int) -> None:
        await take_all(readings, store, start)
        ended.append(name)

    await asyncio.gather(take("long", 0), take("short", len(CONTENT) - 3000))

    assert ended == ["short", "long"]


async def test_a_fast_crowd_opens_a_file_anew_once_in_a_turn() -> None:
    store, readings = Store(), Readings(3, turn=10_000, stands_still_s=15)

    received = await asyncio.gather(*(take_all(readings, store, pause_s=0) for _ in range(5)))

    assert received == [CONTENT] * 5
    assert len(store.opened_at) <= 5 * len(CONTENT) // 10_000


async def test_a_line_that_stands_still_gives_way_whatever_is_left_of_its_turn() -> None:
    store, readings = Store(), Readings(1, turn=len(CONTENT), stands_still_s=0.01)

    async with asyncio.timeout(15), aclosing(readings.read(store.open_at, 0, len(CONTENT))) as pieces:
        await anext(pieces)

        assert await take_all(readings, store) == CONTENT


async def test_a_file_without_bytes_is_opened_once() -> None:
    store, readings = Store(), Readings(1)

    received = await take_all(readings, store, len(CONTENT))

    assert (received, store.opened_at, store.open) == (b"", [len(CONTENT)], 0)


async def test_a_line_that_gave_way_with_its_last_piece_opens_nothing_more() -> None:
    store, readings = Store(), Readings(1)

    async with aclosing(readings.read(store.open_at, len(CONTENT) - 10, len(CONTENT))) as pieces:
        await anext(pieces)
        await take_all(readings, store)
        rest = [piece async for piece in pieces]

    assert rest == []
    assert store.opened_at == [len(CONTENT) - 10, 0]


async def test_whatever_cannot_be_opened_or_read_keeps_no_place() -> None:
    readings, store = Readings(1), Store()

    async def broken() -> AsyncIterator[memoryview]:
        yield memoryview(b"some")
        raise OSError("The disk broke.")

    @asynccontextmanager
    async def missing(position: int) -> AsyncIterator[AsyncIterator[memoryview]]:
        if position == 0:
            raise NotFound("There is no such object.")
        yield broken()

    @asynccontextmanager
    async def breaking(position: int) -> AsyncIterator[AsyncIterator[memoryview]]:
        yield broken()

    with pytest.raises(NotFound):
        await anext(readings.read(missing, 0, 1))
    with pytest.raises(OSError, match="disk"):
        [piece async for piece in readings.read(breaking, 0, 9)]

    async with asyncio.timeout(15):
        assert await take_all(readings, store) == CONTENT


async def test_who_is_cancelled_while_they_wait_keeps_no_place() -> None:
    store, readings = Store(), Readings(1)
    let_go = asyncio.Event()

    async def hanging() -> AsyncIterator[memoryview]:
        await let_go.wait()
        yield memoryview(b"x")

    @asynccontextmanager
    async def hangs(position: int) -> AsyncIterator[AsyncIterator[memoryview]]:
        yield hanging()

    working = asyncio.ensure_future(anext(readings.read(hangs, 0, 1)))
    waiting = asyncio.create_task(take_all(readings, store))
    next_one = asyncio.create_task(take_all(readings, store))
    await asyncio.sleep(0)  # now the first reads the one file there may be, and the others wait for it
    waiting.cancel()
    await asyncio.wait([waiting])
    let_go.set()
    await working

    async with asyncio.timeout(15):
        assert await next_one == CONTENT
