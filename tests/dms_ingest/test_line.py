"""A line that is broken off by others."""

import asyncio
from collections.abc import Callable

import pytest

from dms_ingest.line import Line
from nexarch.errors import Conflict


async def test_a_line_may_be_cut_by_several_before_the_first_cut_has_come_through() -> None:
    reading, told, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Stubborn:
        async def read_into(self, _room: memoryview, _took: Callable[[int], None]) -> bool:
            """Like a thread, which ends when it is done and not when it is to."""
            reading.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.set()
                await let_go.wait()
            return False

    line = Line(Stubborn(), idle_s=60)
    piece = asyncio.create_task(line.read_into(memoryview(bytearray(1)), print))
    await reading.wait()

    line.cut(Conflict("first"))
    await told.wait()
    line.cut(Conflict("second"))
    let_go.set()

    with pytest.raises(Conflict, match="second"):
        await piece
