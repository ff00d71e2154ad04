"""The NOTIFY channels of the registry database, and what their payloads mean.

A notification is a hint and carries at most an id: it may be late, come twice or be lost. The tables are the truth.
"""

from typing import Final

JOBS: Final = "jobs"
"""A tenant has new jobs; the payload is its slug."""

JOB_CANCELS: Final = "job_cancels"
"""Somebody cancelled a job of a tenant that runs; the payload is the tenant's slug."""

TENANTS: Final = "tenants"
"""A tenant's state or database address changed; the payload is its slug."""

FLAGS: Final = "flags"
"""A feature flag changed; the payload is its key, or empty for all of them."""

MODULES: Final = "modules"
"""A module or its credentials changed; the payload is its id, or empty for all of them."""

KEYS: Final = "keys"
"""The published token keys changed; the payload is empty."""

UPLOADS: Final = "uploads"
"""Somebody wants to go on with an upload that another process holds; the payload is the upload's id."""
