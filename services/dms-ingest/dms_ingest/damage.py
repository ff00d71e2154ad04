"""How a revision looks whose stored object the check of the store has found missing or damaged.

Its processing state is hidden behind `damaged`, not lost: it shows again once a later check finds the object well.
"""

from typing import NamedTuple

DAMAGED = "damaged"

_REASONS = {
    "missing": ("object-missing", "The stored file is not in the object store. The operators know which one."),
    "size": ("object-damaged", "The stored file is longer or shorter than what was uploaded."),
    "content": ("object-damaged", "The stored file is not what was uploaded."),
}


class Shown(NamedTuple):
    """The state of a revision, and the reason for it, as people see it."""

    state: str | None
    error_code: str | None
    error_detail: str | None


def shown(state: str | None, error_code: str | None, error_detail: str | None, damage: str | None) -> Shown:
    """What to show for a revision's own state and the damage of its object (None: none is known)."""
    if damage is None:
        return Shown(state, error_code, error_detail)
    return Shown(DAMAGED, *_REASONS[damage])
