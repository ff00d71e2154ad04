"""Every job type this worker runs, on one page."""

from prometheus_client import CollectorRegistry

from dms_worker.check_metrics import CheckMetrics
from dms_worker.extract.limits import MIB, Limits
from dms_worker.handlers.check_store import CheckLimits, StoreChecking
from dms_worker.handlers.extract_text import TextExtraction
from dms_worker.handlers.prune_audit import AuditPruning
from dms_worker.handlers.prune_ended import EndedPruning
from dms_worker.handlers.prune_jobs import JobPruning
from dms_worker.handlers.purge_trash import TrashPurge
from dms_worker.handlers.rewrap_keys import KeyRewrapping
from dms_worker.job_types import JobType
from dms_worker.settings import Settings
from nexarch.core_client import CoreClient
from nexarch.job_types import CHECK_STORE, EXTRACT_TEXT, PRUNE_AUDIT, PRUNE_ENDED, PRUNE_JOBS, PURGE_TRASH, REWRAP_KEYS
from nexarch.jobs import RetryPolicy
from nexarch.storage import Storage
from nexarch.tenancy import TenantPools

# Claiming KEK and object takes time too; the child's own limit ends first, with a reason.
_BESIDE_THE_CHILD_S = 60.0


def job_types(
    settings: Settings, core: CoreClient, storage: Storage, tenants: TenantPools, registry: CollectorRegistry
) -> list[JobType]:
    """Make the handlers with what they work with."""
    check = CheckLimits(
        sample_objects=settings.check_objects,
        sample_bytes=settings.check_mib * MIB,
        orphans_kept_s=settings.orphans_kept_s,
    )
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
            name=CHECK_STORE,
            handler=StoreChecking(core, storage, tenants, CheckMetrics(registry), check).run,
            concurrency=1,
            every_s=settings.check_every_s,
            retry=RetryPolicy(base_s=300.0),  # five attempts in an hour: a store may be away for a while
            deadline_s=86400.0,  # of a turn, which ends with an object: the largest takes hours
        ),
        JobType(
            name=PRUNE_JOBS,
            handler=JobPruning(settings.finished_jobs_kept_s, settings.dead_letters_kept_s).run,
            concurrency=1,
            every_s=settings.prune_every_s,
        ),
        JobType(
            name=PRUNE_ENDED,
            handler=EndedPruning(
                uploads_kept_s=settings.ended_uploads_kept_s,
                usage_kept_s=settings.delivered_usage_kept_s,
                checks_kept_s=settings.store_checks_kept_s,
            ).run,
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
