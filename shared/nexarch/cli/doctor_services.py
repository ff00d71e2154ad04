"""The doctor on the services: reachable, ready, of this version, with a clock like ours, and the login accepted."""

import asyncio
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import aiohttp

from nexarch.cli.client import UserLogin, operator_api
from nexarch.cli.failures import Failure
from nexarch.cli.findings import Finding, Status, clock_finding
from nexarch.cli.target import Target

_NAMES = {"core": "core-api", "ingest": "dms-ingest", "worker": "dms-worker", "alerter": "alerter"}
_TIMEOUT = aiohttp.ClientTimeout(total=10.0, connect=3.0)
_DATE_STEP_S = 1.0  # the Date header knows whole seconds


async def check_services(session: aiohttp.ClientSession, target: Target) -> list[Finding]:
    """All four services at once."""
    found = await asyncio.gather(*(_check_service(session, target, name) for name in _NAMES))
    return [finding for findings in found for finding in findings]


async def _check_service(session: aiohttp.ClientSession, target: Target, name: str) -> Sequence[Finding]:
    service = _NAMES[name]
    try:
        url = target.url(name)
    except Failure as failure:
        # Without core-api nothing works; the others may be out of this computer's reach on purpose.
        status: Status = "fail" if name == "core" else "skipped"
        return [Finding(check=service, status=status, detail=failure.message, mend=failure.hint)]
    headers = await _credentials(session, target, name)
    started = time.time()
    try:
        async with session.get(f"{url}/readyz", timeout=_TIMEOUT, headers=headers) as response:
            answer = await response.json(content_type=None)
            date = response.headers.get("Date")
        took = time.time() - started
        if response.status == HTTPStatus.UNAUTHORIZED:
            return [Finding(check=service, status="skipped", detail=f"{url} answers; its health is not for strangers")]
        running = await _version(session, url, headers)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        reason = str(error) or type(error).__name__
        mend = f"Start {service}, or correct its address; its log says why it ended."
        return [Finding(check=service, status="fail", detail=f"{url} does not answer: {reason}", mend=mend)]
    findings = [_readiness(service, url, response.status, answer), _version_finding(service, running)]
    if date is not None:
        # A header of whole seconds is half a second late on average, and the answer took its time.
        skew = parsedate_to_datetime(date).timestamp() + _DATE_STEP_S / 2 - (started + took / 2)
        findings.append(clock_finding(f"{service} clock", skew, _DATE_STEP_S / 2 + took / 2))
    return findings


async def _credentials(session: aiohttp.ClientSession, target: Target, name: str) -> dict[str, str]:
    """What a published service asks for before it tells of its health; nothing where we do not have it."""
    token = target.operator_token if name in {"core", "worker"} else None
    if name == "ingest":
        try:
            token = await UserLogin(session, target).token()
        except Failure:
            token = None  # `_check_login` says why
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _readiness(service: str, url: str, status: int, answer: Any) -> Finding:  # noqa: ANN401 - JSON of a stranger
    if status == HTTPStatus.OK:
        return Finding(check=service, status="ok", detail=f"ready at {url}")
    failed = answer.get("failed") if isinstance(answer, dict) else None
    if isinstance(failed, dict) and failed:
        names = ", ".join(f"{name} ({why})" for name, why in failed.items())
        mend = f"Mend what the check names; the log of {service} has the reason."
        return Finding(check=service, status="fail", detail=f"not ready at {url}: {names}", mend=mend)
    mend = "Is the address right?"
    return Finding(check=service, status="fail", detail=f"{url}/readyz answers {status}", mend=mend)


async def _version(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> str:
    async with session.get(f"{url}/openapi.json", timeout=_TIMEOUT, headers=headers) as response:
        document = await response.json(content_type=None)
    info = document.get("info") if isinstance(document, dict) else None
    return str(info.get("version", "unknown")) if isinstance(info, dict) else "unknown"


def _version_finding(service: str, running: str) -> Finding:
    ours = version("nexarch")
    if running == ours:
        return Finding(check=f"{service} version", status="ok", detail=running)
    return Finding(
        check=f"{service} version",
        status="warn",
        detail=f"{running}, while this command is {ours}",
        mend="Bring all services and this command to one version.",
    )


async def check_credentials(session: aiohttp.ClientSession, target: Target) -> list[Finding]:
    """Whether the login and the operator's token are accepted; what is not there is skipped."""
    return [await _check_login(session, target), await _check_operator(session, target)]


async def _check_login(session: aiohttp.ClientSession, target: Target) -> Finding:
    if target.token is None and target.password is None:
        return Finding(check="login", status="skipped", detail="nobody is logged in", mend="Run `nexarch login`.")
    try:
        await UserLogin(session, target).token()
    except Failure as failure:
        return Finding(check="login", status="warn", detail=failure.message, mend=failure.hint)
    return Finding(check="login", status="ok", detail=f"{target.email or 'a token'} of {target.tenant or 'its tenant'}")


async def _check_operator(session: aiohttp.ClientSession, target: Target) -> Finding:
    if target.operator_token is None:
        return Finding(check="operator's token", status="skipped", detail="none is known")
    try:
        await operator_api(session, target).call("GET", "/v1/tenants", params={"limit": "1"})
    except Failure as failure:
        return Finding(check="operator's token", status="fail", detail=failure.message, mend=failure.hint)
    return Finding(check="operator's token", status="ok", detail="accepted")
