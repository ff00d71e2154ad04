"""What the views find in the application; the keys of `nexarch.module` and `nexarch.tenant_module` are there too."""

from collections.abc import Mapping

from aiohttp import web

from dms_worker.job_types import JobType
from dms_worker.settings import Settings
from nexarch.storage import Storage

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
STORAGE: web.AppKey[Storage] = web.AppKey("storage", Storage)
JOB_TYPES: web.AppKey[Mapping[str, JobType]] = web.AppKey("job_types", Mapping)
