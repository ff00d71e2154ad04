"""Every job type this worker runs, on one page."""

from dms_worker.extract.limits import MIB, Limits
from dms_worker.handlers.extract_text import TextExtraction
from dms_worker.handlers.prune_audit import AuditPruning
from dms_worker.handlers.prune_jobs import JobPruning
from dms_worker.handlers.purge_trash import TrashPurge
from dms_worker.handlers.rewrap_keys import KeyRewrapping
from dms_worker.job_types import JobType
from dms_worker.settings import Settings
from nexarch.core_client import CoreClient
from nexarch.job_types import EXTRACT_TEXT, PRUNE_AUDIT, PRUNE_JOBS, PURGE_TRASH, REWRAP_KEYS
from nexarch.storage import Storage
from nexarch.tenancy import TenantPools

# Claiming KEK and object takes time too; the child's own limit ends first, with a reason.
_BESIDE_THE_CHILD_S = 60.0


def job_types(settings: Settings, core: CoreClient, storage: Storage, tenants: TenantPools) -> list[JobType]:
    """Make the handlers with what they work with."""
    limits = Limits(
        wall_seconds=settings.extract_time_limit_s,
        cpu_seconds=max(1, round(settings.extract_time_limit_s)),
        memory_bytes=settings.extract_memory_limit_mib * MIB,
    )
    extract = TextExtraction(core, storage, tenants, limits)
    return [
        JobType(
            name=EXTRACT_TEXT,
            handler=extract.run,
            on_dead=extract.gave_up,
            concurrency=settings.concurrency,
            deadline_s=settings.extract_time_limit_s + _BESIDE_THE_CHILD_S,
        ),
        JobType(
            name=PRUNE_JOBS,
            handler=JobPruning(settings.finished_jobs_kept_s, settings.dead_letters_kept_s).run,
            concurrency=1,
            every_s=settings.prune_every_s,
        ),
        JobType(
            name=PRUNE_AUDIT,
            handler=AuditPruning(settings.audit_kept_s).run,
            concurrency=1,
            every_s=settings.prune_every_s,
        ),
        JobType(
            name=PURGE_TRASH,
            handler=TrashPurge(storage).run,
            concurrency=1,
            every_s=settings.trash_every_s,
        ),
        JobType(
            name=REWRAP_KEYS,
            handler=KeyRewrapping(core, tenants).run,
            concurrency=1,
            every_s=settings.rewrap_every_s,
            deadline_s=3600.0,  # millions of rows; what is left goes on in the next attempt
        ),
    ]
