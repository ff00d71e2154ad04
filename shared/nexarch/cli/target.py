"""Where the platform is and who asks: from --endpoints, the profile that `nexarch login` wrote, or `.nexarch/`.

One source is taken and never mixed with another, so that no token goes to a platform that did not issue it.
NEXARCH_CORE_URL, NEXARCH_INGEST_URL, NEXARCH_WORKER_URL, NEXARCH_TOKEN, NEXARCH_OPERATOR_TOKEN, NEXARCH_PASSWORD
and NEXARCH_REGISTRY_DSN then override single values, unless --endpoints was given.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nexarch.cli.failures import Failure, NotAuthorised, Unavailable
from nexarch.private_files import write_private

LOCAL_ENDPOINTS = Path(".nexarch/endpoints.json")
START_OR_LOG_IN = "Start a platform in this folder with `make run` (`nexarch up`), run `nexarch login`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Addresses and credentials; its repr shows no secret."""

    source: str  # for messages: where the values come from
    core_url: str | None = None
    ingest_url: str | None = None
    worker_url: str | None = None
    alerter_url: str | None = None
    tenant: str | None = None
    email: str | None = None
    password: str | None = None
    token: str | None = None
    expires_at: float | None = None  # of the token, in seconds since 1970
    operator_token: str | None = None
    registry_dsn: str | None = None

    def __repr__(self) -> str:
        return f"Target(source={self.source!r})"

    def url(self, name: str) -> str:
        """The address of `core`, `ingest`, `worker` or `alerter`, without a slash at its end."""
        address: str | None = getattr(self, f"{name}_url")
        if address is None:
            raise NotAuthorised(
                f"The address of {_SERVICES[name]} is not known.",
                hint=f"{START_OR_LOG_IN}, set NEXARCH_{name.upper()}_URL or give --endpoints.",
            )
        return address.rstrip("/")


_SERVICES = {"core": "core-api", "ingest": "dms-ingest", "worker": "dms-worker", "alerter": "alerter"}
_OVERRIDES = {
    "core_url": "NEXARCH_CORE_URL",
    "ingest_url": "NEXARCH_INGEST_URL",
    "worker_url": "NEXARCH_WORKER_URL",
    "alerter_url": "NEXARCH_ALERTER_URL",
    "password": "NEXARCH_PASSWORD",
    "operator_token": "NEXARCH_OPERATOR_TOKEN",
    "registry_dsn": "NEXARCH_REGISTRY_DSN",
}


def resolve_target(endpoints: Path | None, environment: Mapping[str, str] = os.environ) -> Target:
    """Choose the source and apply the variables."""
    if endpoints is not None:
        return _from_endpoints(endpoints)
    target = _from_profile(profile_path(environment))
    if target is None and LOCAL_ENDPOINTS.is_file():
        target = _from_endpoints(LOCAL_ENDPOINTS)
    if target is None:
        target = Target(source="the environment")
    given: dict[str, Any] = {
        name: environment[variable] for name, variable in _OVERRIDES.items() if environment.get(variable)
    }
    if token := environment.get("NEXARCH_TOKEN"):
        given |= {"token": token, "expires_at": None, "password": None}
    return replace(target, **given)


def profile_path(environment: Mapping[str, str] = os.environ) -> Path:
    """`${XDG_CONFIG_HOME:-~/.config}/nexarch/profile.json`."""
    base = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "nexarch" / "profile.json"


_KEPT = ("core_url", "ingest_url", "worker_url", "tenant", "email", "token", "expires_at", "operator_token")


def write_profile(target: Target, path: Path) -> None:
    """Store addresses and tokens, readable by their owner alone; never the password."""
    values = asdict(target)
    kept = {name: values[name] for name in _KEPT if values[name] is not None}
    write_private(path, json.dumps(kept, indent=2) + "\n")


def _from_profile(path: Path) -> Target | None:
    try:
        values = _read(path)
    except FileNotFoundError:
        return None
    known = {name: values[name] for name in _KEPT if values.get(name) is not None}
    return Target(source=str(path), **known)


def _from_endpoints(path: Path) -> Target:
    try:
        values = _read(path)
    except FileNotFoundError as error:
        raise Unavailable(
            f"There is no file {path}.", hint="`nexarch up` writes it, for as long as it runs."
        ) from error
    demo = values.get("demo") or {}
    return Target(
        source=str(path),
        core_url=values.get("core_api"),
        ingest_url=values.get("dms_ingest"),
        worker_url=values.get("dms_worker"),
        alerter_url=values.get("alerter"),
        operator_token=values.get("operator_token"),
        registry_dsn=values.get("registry_dsn"),
        tenant=demo.get("tenant"),
        email=demo.get("email"),
        password=demo.get("password"),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}", hint="Remove it and log in anew.") from error
    if not isinstance(values, dict):
        raise Failure(f"{path} is not a JSON object.", hint="Remove it and log in anew.")
    return values
