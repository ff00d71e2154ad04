"""Writes the documents that follow from the code: docs/openapi/<service>.json and docs/problems.md (`make docs`).

With `--check` nothing is written: exit 1 and the names of those that are no longer equal to the code.
"""

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from nexarch.errors import NexarchError
from nexarch.http import openapi_document

DOCS = Path(__file__).parent
SERVICES = ("core_api", "dms_ingest", "dms_worker", "alerter")

_INTRODUCTION = """\
# Problems

Every error is answered as `application/problem+json` (RFC 9457): `type` is `/problems/<code>`, and beside `title`,
`status`, `detail`, `instance` and `request_id` stand the members that the text below names. Programs decide by
`type`; `detail` is for people. A client that does not know a type goes by the status.

`errors` is a list of `{"pointer", "detail"}`: where in the body (RFC 6901) or, after `?`, in the query. With 429 and
503 comes `Retry-After`, and `retry_after_s` says the same.

One answer of a service is no problem document: what is not HTTP, or has a header over 8 KiB, gets 400 in plain text.

This page is written from the error classes by `make docs`.
"""
_EXTRACTION = "dms_worker.extract"
_REASONS = """
## Why a file has no text

These codes are no answers to a request. They stand in `processing_error` of a document and in `last_error` of its job.
Two have the same name as an answer, because they say the same of the file: `too-large` and `unsupported-type`.

| code | what it means |
|---|---|
"""
# What the frame makes of aiohttp's own errors and of those that nobody expected, and what deploy/haproxy.cfg says.
_FRAME = {
    "bad-request": (400, "Said by the proxy in front: this is no HTTP request that can be read."),
    "request-timeout": (
        408,
        "A JSON body took over two minutes; or, said by the proxy in front, the headers did not come in time.",
    ),
    "method-not-allowed": (405, "The path exists, the method does not; `Allow` lists those that do."),
    "length-required": (411, "The request needs a Content-Length."),
    "expectation-failed": (417, "Only `Expect: 100-continue` is understood."),
    "internal-error": (500, "Something unexpected; the log has the reason under the `request_id`."),
}


def main() -> None:
    """Write or check all documents."""
    written = {DOCS / "problems.md": problems()}
    for service in SERVICES:
        written[DOCS / "openapi" / f"{service.replace('_', '-')}.json"] = openapi(service)
    stale = [path for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit("".join(f"{path.relative_to(DOCS.parent)} is stale: make docs\n" for path in stale) or None)
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(written[path], encoding="utf-8")
        print(path.relative_to(DOCS.parent))


def openapi(service: str) -> str:
    """The OpenAPI document of a service, as it serves it at /openapi.json."""
    info = importlib.import_module(f"{service}.app").INFO
    routes = importlib.import_module(f"{service}.routes").ROUTES
    return json.dumps(openapi_document(info, routes), indent=2, ensure_ascii=False) + "\n"


def problems() -> str:
    """A table of problem types for the frame and for each service, then the reasons that are no answers."""
    text = _INTRODUCTION
    known: set[str] = set()
    for package in ("nexarch", *SERVICES):
        answers = [error for error in _errors(package) if not error.__module__.startswith(_EXTRACTION)]
        for error in answers:
            if error.code in known:
                sys.exit(f"{error.__name__}: another error has the code {error.code} already")
            known.add(error.code)
        rows = {error.code: (int(error.status), _meaning(error)) for error in answers}
        if package == "nexarch":
            rows |= _FRAME
        if rows:
            name = "Every service" if package == "nexarch" else package.replace("_", "-")
            text += f"\n## {name}\n\n| type | status | what it means |\n|---|---|---|\n"
            text += "".join(
                f"| `/problems/{code}` | {_status(status)} | {meaning} |\n"
                for code, (status, meaning) in sorted(rows.items())
            )
    reasons = {
        error.code: _meaning(error) for error in _errors("dms_worker") if error.__module__.startswith(_EXTRACTION)
    }
    return text + _REASONS + "".join(f"| `{code}` | {meaning} |\n" for code, meaning in sorted(reasons.items()))


def _errors(package: str) -> Iterator[type[NexarchError]]:
    """Every error with a code of its own that a package defines."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    pending = [NexarchError]
    while pending:
        error = pending.pop()
        pending += error.__subclasses__()
        if "code" in vars(error) and error.__module__.split(".")[0] == package:
            yield error


def _status(status: int) -> str:
    """The number and, where it has one, its phrase."""
    return f"{status} {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else str(status)


def _meaning(error: type[NexarchError]) -> str:
    """The class's own words, on one line of a table."""
    return " ".join((error.__doc__ or error.title).split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
