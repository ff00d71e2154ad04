"""The kinds of jobs that one service puts into a queue and another takes out: names and payloads."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict

EXTRACT_TEXT = "extract_text"


class ExtractText(BaseModel):
    """Payload of `extract_text`: make a revision's text searchable. The tenant is the one whose queue holds it."""

    model_config = ConfigDict(frozen=True)

    document_id: UUID
    revision_id: UUID

    @property
    def idempotency_key(self) -> str:
        """One job per revision, however often it is asked for."""
        return f"{EXTRACT_TEXT}:{self.revision_id}"
