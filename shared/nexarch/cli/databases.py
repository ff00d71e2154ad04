"""What goes wrong on the way to a database, as a `Failure`."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from nexarch.cli.failures import Failure, NotAuthorised, Unavailable
from nexarch.db import AWAY

_UNREACHABLE: tuple[type[Exception], ...] = (*AWAY, OSError)


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Around a connect: refused, no address, or no answer."""
    try:
        yield
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise NotAuthorised(f"{what} refuses: {error.args[0]}.", hint="Are user and password right?") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotAuthorised(f"{what} refuses: {error.args[0]}.", hint="Connect as a user who may.") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise Failure(f"{what} is not there: {error.args[0]}.", hint="`nexarch bootstrap` makes it.") from error
    except ValueError as error:
        raise Failure(f"{what} has no valid address: postgresql://user:password@host:port/name is one.") from error
    except _UNREACHABLE as error:
        raise Unavailable(
            f"{what} does not answer: {str(error) or type(error).__name__}.", hint="Is PostgreSQL running?"
        ) from error
