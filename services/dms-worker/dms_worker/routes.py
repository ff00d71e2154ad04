"""Every method and path of dms-worker."""

from dms_worker.views import jobs
from nexarch.auth import Access
from nexarch.jobs import JobEnded, JobNotDead, JobNotFound
from nexarch.operators import TenantRequired
from nexarch.pages import BadCursor
from nexarch.routing import Route

_WHO = Access.ADMIN | Access.OPERATOR

# fmt: off
ROUTES = [
    Route("GET", "/v1/jobs", jobs.list_jobs, _WHO, jobs.JobPage, errors=[TenantRequired, BadCursor]),
    Route("POST", "/v1/jobs/requeue", jobs.requeue_all, _WHO, jobs.Requeued, errors=[TenantRequired]),
    Route("GET", "/v1/jobs/{id}", jobs.show, _WHO, jobs.JobDetails, errors=[TenantRequired, JobNotFound]),
    Route("POST", "/v1/jobs/{id}/requeue", jobs.requeue, _WHO, jobs.JobDetails,
          errors=[TenantRequired, JobNotFound, JobNotDead]),
    Route("POST", "/v1/jobs/{id}/discard", jobs.discard, _WHO, jobs.JobDetails,
          errors=[TenantRequired, JobNotFound, JobNotDead]),
    Route("POST", "/v1/jobs/{id}/cancel", jobs.cancel, _WHO, jobs.JobDetails,
          errors=[TenantRequired, JobNotFound, JobEnded]),
]
# fmt: on
