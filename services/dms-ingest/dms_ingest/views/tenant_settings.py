"""HTTP in and out of the tenant's settings."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

import structlog
from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, model_validator

from dms_ingest import tenant_settings
from dms_ingest.media_types import is_media_range
from dms_ingest.tenant_settings import Duplicates, TenantSettings
from dms_ingest.views.preconditions import if_match
from nexarch import audit
from nexarch.audit import Action
from nexarch.routing import json_response
from nexarch.tenant_module import caller, tenant_connection

log = structlog.get_logger(__name__)

_MAX_BYTES = 2**63 - 1


def _media_range(value: str) -> str:
    """A media type or `type/*`, in lower case."""
    lowered = value.strip().lower()
    if not is_media_range(lowered):
        raise ValueError("this is neither a media type nor type/*")
    return lowered


MediaRange = Annotated[str, Field(max_length=255), AfterValidator(_media_range)]


class SettingsAnswer(BaseModel):
    """The tenant's settings. Their `version` is their ETag."""

    duplicates: Annotated[
        Duplicates,
        Field(
            description="A file whose bytes a document has already is rejected; or becomes a document that is linked "
            "to the stored bytes; or is stored like any other"
        ),
    ]
    allowed_types: Annotated[
        list[str] | None, Field(description="Media types, or type/*; null: what the service allows")
    ]
    max_upload_bytes: Annotated[int | None, Field(description="Of one file; null: the limit of the service")]
    quota_bytes: Annotated[int | None, Field(description="Of all documents together; null: no limit")]
    trash_days: Annotated[
        int, Field(description="In the trash, until a document is removed for good; 0: only when an admin says so")
    ]
    version: int
    updated_at: datetime
    updated_by: UUID | None


class SettingsChange(BaseModel):
    """What is to change: only what is there does."""

    model_config = ConfigDict(extra="forbid")

    duplicates: Duplicates = "allow"
    allowed_types: Annotated[list[MediaRange], Field(min_length=1, max_length=200)] | None = None
    max_upload_bytes: Annotated[StrictInt, Field(ge=1, le=_MAX_BYTES)] | None = None
    quota_bytes: Annotated[StrictInt, Field(ge=0, le=_MAX_BYTES)] | None = None
    trash_days: Annotated[StrictInt, Field(ge=0, le=3650)] = 30

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a setting to change")
        return self


async def get(request: web.Request) -> web.Response:
    """`GET /v1/settings`: what the tenant's admins decided about uploads and the trash."""
    async with tenant_connection(request) as conn:
        settings = await tenant_settings.get_settings(conn)
    return _response(settings)


async def change(request: web.Request, body: SettingsChange) -> web.Response:
    """`PATCH /v1/settings`: change some of the settings; null brings back the service's own.

    With `If-Match` only the version that the caller has read is changed; otherwise 412.
    """
    wanted = body.model_dump(include=body.model_fields_set)
    user = caller(request)
    async with tenant_connection(request) as conn, conn.transaction():
        before = await tenant_settings.hold_settings(conn, if_versions=if_match(request))
        after = await tenant_settings.save_settings(conn, replace(before, **wanted), user.id)
        await audit.record(
            conn,
            Action.SETTINGS_CHANGED,
            user_id=user.id,
            details={"version": after.version, "changes": [*sorted(wanted)]},
        )
    log.info("tenant settings changed", user=str(user.id), version=after.version, changes=sorted(wanted))
    return _response(after)


def _response(settings: TenantSettings) -> web.Response:
    answer = SettingsAnswer.model_validate(settings, from_attributes=True)
    return json_response(answer, headers={"ETag": f'"{settings.version}"'})
