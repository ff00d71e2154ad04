"""Objects without a row: which of them a fault explains.

An upload is completed by putting its object and then committing its rows. What falls between the two leaves an object
that no row knows, which the daily check of the store removes when it is a day old. Any other must not be there.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime

from faults.stack import StoredFile


@dataclass(frozen=True, slots=True)
class Orphans:
    """The keys of those that have come since they were looked at last."""

    young: Set[str]  # put since then: a complete was cut
    old: Set[str]  # put before: their rows have gone, or never were

    def unexplained(self, cut: int) -> list[str]:
        """What is wrong with them, in words, if a fault may have cut so many attempts to complete an upload."""
        problems = [f"{key}: the object is there, and its row has gone" for key in sorted(self.old)]
        if len(self.young) > cut:
            problems.append(f"{len(self.young)} new objects without a row, and {cut} completes may have been cut")
        return problems


def new_orphans(objects: Mapping[str, StoredFile], in_use: Set[str], known: Set[str], *, since: datetime) -> Orphans:
    """Part those that no row knows; `known` were there before, `since` is when these were looked at."""
    new = objects.keys() - in_use - known
    young = {key for key in new if objects[key].put_at >= since}
    return Orphans(young=young, old=new - young)
