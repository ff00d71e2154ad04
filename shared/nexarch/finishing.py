"""Work that is waited for to its end, even by a caller who is cancelled."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: asyncio.Future[T]) -> T:
    """Return what the future or task returns; a caller who is cancelled waits for its end all the same.

    So what the work uses, or makes, can be cleared up in `finally`: it has ended by then.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                continue  # cancelled once more: the work goes on still
        if not work.cancelled():
            work.exception()  # taken note of; the cancellation is what the caller is told
        raise
