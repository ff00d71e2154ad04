"""Passwords: argon2id (RFC 9106, the low-memory profile of argon2-cffi: 64 MiB, 3 passes, 4 lanes) in threads.

A hash costs about 50 ms of a core and 64 MiB, so only a few run at a time and few more wait: more sign-ins than that
are told to come back, instead of taking the memory of everything else.
"""

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from nexarch.errors import Unavailable

T = TypeVar("T")


class SignInBusy(Unavailable):
    """More passwords are waiting to be checked than this service takes on."""

    code = "sign-in-busy"
    title = "Too many sign-ins at once"


class Passwords:
    """Hashes and verifies, `at_once` at a time, with at most `waiting` more in the queue.

    `hasher` sets the cost of a new hash; an old one is verified at its own.
    """

    def __init__(self, hasher: PasswordHasher | None = None, *, at_once: int = 2, waiting: int = 64) -> None:
        self._hasher = hasher or PasswordHasher()
        self._running = asyncio.Semaphore(at_once)
        self._places = at_once + waiting
        # For accounts that do not exist: verifying against it takes as long as against a real one.
        self._nobody = self._hasher.hash("nobody has this password")

    async def hash(self, password: str) -> str:
        """The text to store; `SignInBusy`."""
        return await self._work(lambda: self._hasher.hash(_normal(password)))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password is right; the same work, and False, where `stored` is None. `SignInBusy`."""
        return await self._work(lambda: self._verify(stored, password))

    def _verify(self, stored: str | None, password: str) -> bool:
        try:
            self._hasher.verify(stored or self._nobody, _normal(password))
        except VerificationError:
            return False
        return stored is not None

    async def _work(self, work: Callable[[], T]) -> T:
        async with self._place(), self._running:
            return await asyncio.to_thread(work)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self._places == 0:
            raise SignInBusy("Too many sign-ins at once; try again in a moment.", retry_after_s=2)
        self._places -= 1
        try:
            yield
        finally:
            self._places += 1


def _normal(password: str) -> str:
    """NFC: the same password typed on two systems is the same bytes (RFC 8265, section 4.2)."""
    return unicodedata.normalize("NFC", password)
