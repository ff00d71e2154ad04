"""How many jobs may run at once: in the process, and of each type."""

from collections.abc import Callable, Iterable, Mapping


class Slots:
    """Counts free slots. A slot is taken before a claim and free again when the row says that the job has ended."""

    def __init__(self, total: int, by_type: Mapping[str, int], on_free: Callable[[], None]) -> None:
        self._total = total
        self._by_type = dict(by_type)
        self._on_free = on_free

    def free(self, job_types: Iterable[str]) -> set[str]:
        """Those of the types of which a job could start now."""
        return {name for name in job_types if self._by_type[name] > 0} if self._total > 0 else set()

    def take(self, job_types: Iterable[str], at_most: int) -> dict[str, int]:
        """Reserve up to `at_most` slots, shared evenly between the types that have any; type to number."""
        wanted = sorted(self.free(job_types), key=lambda name: self._by_type[name])
        left = min(self._total, at_most)
        taken: dict[str, int] = {}
        for position, name in enumerate(wanted):
            # Those with few free slots come first, so what they cannot use goes to the others.
            number = min(self._by_type[name], -(-left // (len(wanted) - position)))
            if number > 0:
                taken[name] = number
                left -= number
        for name, number in taken.items():
            self._by_type[name] -= number
            self._total -= number
        return taken

    def give_back(self, numbers: Mapping[str, int]) -> None:
        """Free slots again, type to number."""
        for name, number in numbers.items():
            self._by_type[name] += number
            self._total += number
        if any(numbers.values()):
            self._on_free()
