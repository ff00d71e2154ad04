"""What a tenant's admins decide about uploads and the trash: one row of the tenant's database.

It is read where it is needed, in the transaction that needs it, and cached nowhere: a change holds from its commit on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from nexarch.db import Connection, fetch_one
from nexarch.errors import PreconditionFailed

Duplicates = Literal["reject", "link", "allow"]


class SettingsChanged(PreconditionFailed):
    """Somebody else changed the tenant's settings since the version that `If-Match` names."""

    code = "settings-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """The row of `tenant_settings`."""

    duplicates: Duplicates
    allowed_types: list[str] | None  # media types, or type/*; None: what the service allows
    max_upload_bytes: int | None  # of one file; None: the limit of the service, which holds in any case
    quota_bytes: int | None  # of plaintext, all documents together; None: no limit
    trash_days: int  # in the trash, until a document is removed for good; 0: not by itself
    version: int
    updated_at: datetime
    updated_by: UUID | None  # None: never changed


async def get_settings(conn: Connection) -> TenantSettings:
    """The tenant's settings as of now."""
    sql = """
        SELECT duplicates, allowed_types, max_upload_bytes, quota_bytes, trash_days, version, updated_at, updated_by
        FROM tenant_settings
    """
    return await fetch_one(conn, TenantSettings, sql)


async def hold_settings(conn: Connection, *, if_versions: Sequence[int] | None) -> TenantSettings:
    """The settings, kept from other changes until the transaction ends.

    Raises SettingsChanged if they are at none of `if_versions`.
    """
    sql = """
        SELECT duplicates, allowed_types, max_upload_bytes, quota_bytes, trash_days, version, updated_at, updated_by
        FROM tenant_settings
        FOR NO KEY UPDATE
    """
    settings = await fetch_one(conn, TenantSettings, sql)
    if if_versions is not None and settings.version not in if_versions:
        raise SettingsChanged(
            f"The settings are at version {settings.version} by now; read them again.", version=settings.version
        )
    return settings


async def save_settings(conn: Connection, settings: TenantSettings, user_id: UUID) -> TenantSettings:
    """Write settings that `hold_settings` gave and the caller changed; returns the row at its next version."""
    sql = """
        UPDATE tenant_settings
        SET duplicates = $1, allowed_types = $2, max_upload_bytes = $3, quota_bytes = $4, trash_days = $5,
            version = version + 1, updated_at = now(), updated_by = $6
        RETURNING duplicates, allowed_types, max_upload_bytes, quota_bytes, trash_days, version, updated_at, updated_by
    """
    return await fetch_one(
        conn,
        TenantSettings,
        sql,
        settings.duplicates,
        settings.allowed_types,
        settings.max_upload_bytes,
        settings.quota_bytes,
        settings.trash_days,
        user_id,
    )
