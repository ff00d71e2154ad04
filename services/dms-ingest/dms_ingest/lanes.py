"""Lanes: blocking work that goes on in a thread, piece after piece, while the event loop brings the next ones.

A hop from the event loop to a thread and back takes up to 0.2 ms, as long as it takes to seal and write half a MiB. A
lane goes from one piece to the next without it, and many lanes share a few threads.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from nexarch.finishing import to_its_end

_TURN = 8  # pieces of one lane, then another one has the thread

_threads = ThreadPoolExecutor(max_workers=4 + 2 * (os.cpu_count() or 1), thread_name_prefix="lane")


class Lane:
    """Runs functions in a thread, one at a time, in the order in which they were added."""

    def __init__(self) -> None:
        self._pieces: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._runs = False
        self._error: BaseException | None = None

    def add(self, piece: Callable[[], object]) -> None:
        """Run it after all that was added before, also if some of that raised; in any thread."""
        with self._lock:
            self._pieces.append(piece)
            if self._runs:
                return
            self._runs = True
        _threads.submit(self._run)

    def wait(self) -> None:
        """Block until all that was added before has run; raises the first exception of any of it."""
        reached = threading.Event()
        self.add(reached.set)
        reached.wait()
        self._raise()

    async def idle(self) -> None:
        """`wait` for the event loop; a caller who is cancelled waits to the end all the same."""
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        self.add(partial(loop.call_soon_threadsafe, reached.set_result, None))
        await to_its_end(reached)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        for _ in range(_TURN):
            with self._lock:
                if not self._pieces:
                    self._runs = False
                    return
                piece = self._pieces.popleft()
            try:
                piece()
            except BaseException as error:  # noqa: BLE001 - whoever waits is told
                self._error = self._error or error
        _threads.submit(self._run)
