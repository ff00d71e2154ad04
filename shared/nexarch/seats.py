"""Seats: how many requests of a kind run at once, shared so that a crowd of one's leaves room for everybody else.

Shared by dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): a tenant gets one
more while it holds fewer than are free, and so does a person within what the tenant could still get. So one person
alone has up to a third of all, one tenant up to a half, and there is a free one until very many hold some. Whoever
takes several at once is held to the same as if they took them one after the other.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from nexarch.errors import Unavailable


class AtCapacity(Unavailable):
    """As many transfers or large bodies are under way as fit, or more of them are yours than leaves room for others."""

    code = "at-capacity"
    title = "Too much is under way at once"


class Seats:
    """`most` of them; `what` names in the plural what sits there."""

    def __init__(self, most: int, what: str) -> None:
        self._free = most
        self._what = what
        self._of_tenant: Counter[str] = Counter()
        self._of_person: Counter[tuple[str, Hashable]] = Counter()
        self.taken = 0

    @contextmanager
    def take(self, tenant: str, person: Hashable, count: int = 1) -> Iterator[None]:
        """Hold seats within the block; `person` is whoever it is within the tenant. Raises AtCapacity."""
        key = tenant, person
        before_the_last = count - 1  # of these: fewer are free by them, and more are the tenant's and the person's
        room = self._free - self._of_tenant[tenant] - 2 * before_the_last
        if self._of_person[key] + before_the_last >= room:
            raise AtCapacity(f"Too many {self._what} are under way at once; come again when some have ended.")
        self._count(key, count)
        try:
            yield
        finally:
            self._count(key, -count)

    def _count(self, key: tuple[str, Hashable], change: int) -> None:
        self._free -= change
        self.taken += change
        self._of_tenant[key[0]] += change
        self._of_person[key] += change
        if not self._of_tenant[key[0]]:
            del self._of_tenant[key[0]]
        if not self._of_person[key]:
            del self._of_person[key]
