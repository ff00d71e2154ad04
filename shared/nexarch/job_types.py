"""The kinds of jobs, by name, and the payloads that one service puts into a queue and another takes out."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict

CHECK_STORE = "check_store"  # comes round by itself, without a payload: a sample; and is ordered by an admin
EXTRACT_TEXT = "extract_text"
PRUNE_ENDED = "prune_ended"  # comes round by itself, without a payload
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


class CheckStore(BaseModel):
    """Payload of `check_store`: go on with a check of the tenant's object store. Without one: a sample."""

    model_config = ConfigDict(frozen=True)

    check_id: UUID | None = None
