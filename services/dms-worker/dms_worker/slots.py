"""How many jobs may run at once: in the process, of each type, and of these in one tenant."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many at once, in this process: so many workers, so many times as many jobs."""

    total: int
    by_type: Mapping[str, int]
    per_tenant: int | None = None
    by_type_per_tenant: Mapping[str, int] = field(default_factory=dict)  # types that have such a limit


class Slots:
    """Counts free slots. A slot is taken before a claim and free again when the row says that the job has ended."""

    def __init__(self, limits: Limits, on_free: Callable[[], None]) -> None:
        self._limits = limits
        self._on_free = on_free
        self._total = limits.total
        self._by_type = dict(limits.by_type)
        self._in_tenant: Counter[str] = Counter()  # taken ones, as are the next
        self._in_tenant_by_type: Counter[tuple[str, str]] = Counter()

    @property
    def left(self) -> int:
        """Free slots of the process."""
        return self._total

    def free(self, tenant: str, job_types: Iterable[str]) -> set[str]:
        """Those of the types of which a job of the tenant could start now."""
        return {name for name in job_types if self._room(tenant, name) > 0}

    def take(self, tenant: str, job_types: Iterable[str], at_most: int) -> dict[str, int]:
        """Reserve up to `at_most` slots for a tenant, shared evenly between the types that have any; type to number."""
        room = {name: number for name in job_types if (number := self._room(tenant, name)) > 0}
        wanted = sorted(room, key=room.__getitem__)
        left = min(self._room_in(tenant), at_most)
        taken: dict[str, int] = {}
        for position, name in enumerate(wanted):
            # Those with few free slots come first, so what they cannot use goes to the others.
            number = min(room[name], -(-left // (len(wanted) - position)))
            if number > 0:
                taken[name] = number
                left -= number
        self._count(tenant, taken, 1)
        return taken

    def give_back(self, tenant: str, numbers: Mapping[str, int]) -> None:
        """Free a tenant's slots again, type to number."""
        self._count(tenant, numbers, -1)
        if any(numbers.values()):
            self._on_free()

    def _room(self, tenant: str, name: str) -> int:
        room = min(self._room_in(tenant), self._by_type[name])
        limit = self._limits.by_type_per_tenant.get(name)
        return room if limit is None else min(room, limit - self._in_tenant_by_type[tenant, name])

    def _room_in(self, tenant: str) -> int:
        limit = self._limits.per_tenant
        return self._total if limit is None else min(self._total, limit - self._in_tenant[tenant])

    def _count(self, tenant: str, numbers: Mapping[str, int], sign: int) -> None:
        for name, number in numbers.items():
            self._total -= sign * number
            self._by_type[name] -= sign * number
            if self._limits.per_tenant is not None:
                self._in_tenant[tenant] += sign * number
            if name in self._limits.by_type_per_tenant:
                self._in_tenant_by_type[tenant, name] += sign * number
                if not self._in_tenant_by_type[tenant, name]:
                    del self._in_tenant_by_type[tenant, name]
        if not self._in_tenant[tenant]:
            del self._in_tenant[tenant]
