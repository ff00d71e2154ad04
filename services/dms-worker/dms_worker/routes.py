"""Every method and path of dms-worker."""

from dms_worker.views import jobs
from nexarch.auth import Access
from nexarch.jobs import JobNotFound
from nexarch.pages import BadCursor
from nexarch.routing import Route

ROUTES = [
    Route("GET", "/v1/jobs", jobs.list_jobs, Access.ADMIN, answer=jobs.JobPage, errors=[BadCursor]),
    Route("GET", "/v1/jobs/{id}", jobs.show, Access.ADMIN, answer=jobs.JobView, errors=[JobNotFound]),
]
