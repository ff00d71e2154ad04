"""Who calls, and the database of their tenant. The tenant comes from the token, never from the request."""

from contextlib import AbstractAsyncContextManager
from typing import cast

from aiohttp import web

from dms_ingest.keys import TENANTS
from nexarch.auth import PRINCIPAL, User
from nexarch.db import Connection


def caller(request: web.Request) -> User:
    """The person who calls; every route that is not public has one."""
    return cast("User", request[PRINCIPAL])


def tenant_connection(request: web.Request) -> AbstractAsyncContextManager[Connection]:
    """A connection to the database of the caller's tenant."""
    return request.app[TENANTS].acquire(caller(request).tenant)
