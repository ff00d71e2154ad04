"""The settings of dms-worker."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nexarch.tenant_module import TenantModuleSettings


class Settings(TenantModuleSettings):
    """Read once, in `__main__`; a wrong or missing variable stops the process with its name."""

    model_config = SettingsConfigDict(env_prefix="DMS_WORKER_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=8091, ge=0, le=65535)
    concurrency: int = Field(default=4, ge=1, le=100)  # jobs at once in this process
    # Of these for one tenant; by default one less than all, so that a backlog of long jobs leaves a slot to others.
    tenant_concurrency: int | None = Field(default=None, ge=1)
    stale_after_s: float = Field(default=60.0, ge=3)  # without a heartbeat for so long, a job is taken over
    extract_time_limit_s: float = Field(default=120.0, gt=0)  # of one file, in its child process
    extract_memory_limit_mib: int = Field(default=512, ge=64)
    prune_every_s: float = Field(default=6 * 3600.0, ge=1)  # in each tenant
    # A rotated key is seen to at once; in so long (in each tenant) what was missed then.
    rewrap_every_s: float = Field(default=6 * 3600.0, ge=1)
    finished_jobs_kept_s: float = Field(default=7 * 86400.0, ge=0)  # succeeded or given up, since their end
    dead_letters_kept_s: float = Field(default=90 * 86400.0, ge=0)
    trash_every_s: float = Field(default=3600.0, ge=1)  # in each tenant; how long it is kept is the tenant's setting
    # In each tenant: all keys of the object store, and the bytes of so many objects or MiB, whichever comes first.
    check_every_s: float = Field(default=86400.0, ge=1)
    check_objects: int = Field(default=500, ge=0)
    check_mib: int = Field(default=2048, ge=0)
    # Objects that no row refers to are removed when they are older. Raise it before a tenant's database is restored
    # from a backup: whatever was uploaded since then has no row any more.
    orphans_kept_s: float = Field(default=86400.0, ge=3600)
    audit_kept_s: float = Field(default=365 * 86400.0, ge=30 * 86400)  # events of the audit trail
    # Complete or ended, since then and since its own expiry, whichever is later: until then it answers to its client.
    ended_uploads_kept_s: float = Field(default=7 * 86400.0, ge=0)
    delivered_usage_kept_s: float = Field(default=30 * 86400.0, ge=0)  # rows of the outbox that core-api has confirmed
    store_checks_kept_s: float = Field(default=90 * 86400.0, ge=0)  # since their end
    tenant_pool_size: int = Field(default=8, ge=4)  # connections to each tenant's database; more than `concurrency`
