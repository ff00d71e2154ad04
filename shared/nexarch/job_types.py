"""The kinds of jobs, by name, and the payloads that one service puts into a queue and another takes out."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict

EXTRACT_TEXT = "extract_text"
PURGE_TRASH = "purge_trash"  # comes round by itself, without a payload
PRUNE_AUDIT = "prune_audit"  # comes round by itself, without a payload
PRUNE_JOBS = "prune_jobs"  # comes round by itself, without a payload
REWRAP_KEYS = "rewrap_keys"  # the same, and is ordered by core-api when it has rotated the tenant's key


class ExtractText(BaseModel):
    """Payload of `extract_text`: make a revision's text searchable. The tenant is the one whose queue holds it."""

    model_config = ConfigDict(frozen=True)

    document_id: UUID
    revision_id: UUID

    @property
    def idempotency_key(self) -> str:
        """One job per revision, however often it is asked for."""
        return f"{EXTRACT_TEXT}:{self.revision_id}"
