"""Logs: one JSON object a line in production, readable on a terminal; never a secret, never a body.

Values bound with `structlog.contextvars.bind_contextvars` (request id, trace id, tenant) are in every line, and so are
those of `in_every_line`, which sets one variable for all: tens of thousands of jobs are begun in a second.
"""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

import structlog
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError
from structlog.typing import EventDict, Processor, WrappedLogger

_SECRET_NAMES = re.compile(r"password|secret|token|authorization|cookie|dsn|(^|_)(kek|dek|key)$", re.IGNORECASE)
# user:password@host in any address that ends up in the text of an error
_CREDENTIALS_IN_URL = re.compile(r"(\w+://[^\s:/@]+):[^\s@]+@")
_REDACTED = "[redacted]"


def configure(service: str, level: str = "info", form: Literal["auto", "json", "console"] = "auto") -> None:
    """Send structlog and the standard library's logging to stderr through the same processors."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _of_the_job,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Named(service),
    ]
    last: list[Processor]
    if as_json:
        last = [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer(default=str)]
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=20
        )
        last = [redact, brief, console]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.server").addFilter(without_request_bytes)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def without_request_bytes(record: logging.LogRecord) -> bool:
    """Say of a request that cannot be read no more than that: aiohttp quotes it, with the tokens and bodies in it.

    Whoever goes away in the middle of a request has a line with status 499 already.
    """
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, ConnectionError):
        return False
    if isinstance(error, HttpProcessingError | RequestPayloadError):
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.msg, record.args = "unreadable request (%s)", (type(error).__name__,)
        record.exc_info = record.exc_text = None
    return True


_job_fields: ContextVar[Callable[[], Mapping[str, object]]] = ContextVar(
    "_job_fields", default=lambda: MappingProxyType({})
)


def in_every_line(fields: Callable[[], Mapping[str, object]]) -> None:
    """Put these fields into every line of this task and the tasks it makes; those set here before are dropped.

    They are asked for when there is a line: hardly any job has one.
    """
    _job_fields.set(fields)


def _of_the_job(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    for name, value in _job_fields.get()().items():
        event.setdefault(name, value)
    return event


class _Named:
    """Adds the service's name to every line."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        event["service"] = self._service
        return event


def brief(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Leave out what only programs look for, so that a person's line stays short."""
    for name in ("service", "logger", "span_id", "trace_id"):
        event.pop(name, None)
    event["timestamp"] = event["timestamp"][11:23]  # the time of day
    if event["event"] == "request":
        event["event"] = f"{event.pop('method')} {event.pop('route')} {event.pop('status')} in {event.pop('ms')} ms"
    return event


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace values whose name says that they are secret, and passwords inside addresses."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = _REDACTED
        elif isinstance(value, str):
            event[name] = _CREDENTIALS_IN_URL.sub(rf"\1:{_REDACTED}@", value)
    return event
