import json
import stat
from pathlib import Path

import pytest

from nexarch.cli.failures import Failure, NotAuthorised
from nexarch.cli.target import Target, profile_path, resolve_target, write_profile

ENDPOINTS = {
    "core_api": "http://127.0.0.1:1",
    "dms_ingest": "http://127.0.0.1:2",
    "dms_worker": "http://127.0.0.1:3",
    "alerter": "http://127.0.0.1:4",
    "operator_token": "op",
    "registry_dsn": "postgresql://somewhere",
    "demo": {"tenant": "demo", "email": "demo@example.org", "password": "secret"},
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def variables(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), **more}


def write_endpoints(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(ENDPOINTS))
    return path


def test_the_endpoints_of_this_folder_are_found_without_a_login(tmp_path: Path) -> None:
    write_endpoints(tmp_path / ".nexarch" / "endpoints.json")

    target = resolve_target(None, variables(tmp_path))

    assert target.url("ingest") == "http://127.0.0.1:2"
    assert (target.tenant, target.password, target.operator_token) == ("demo", "secret", "op")


def test_a_login_is_not_mixed_with_the_endpoints_of_this_folder(tmp_path: Path) -> None:
    write_endpoints(tmp_path / ".nexarch" / "endpoints.json")
    environment = variables(tmp_path)
    login = Target(source="", core_url="https://core.example.org", token="t", expires_at=1.0)
    write_profile(login, profile_path(environment))

    target = resolve_target(None, environment)

    assert target.core_url == "https://core.example.org"
    assert target.operator_token is None
    assert target.ingest_url is None


def test_variables_override_a_login_but_not_endpoints_that_were_given(tmp_path: Path) -> None:
    environment = variables(tmp_path, NEXARCH_CORE_URL="http://elsewhere", NEXARCH_TOKEN="t2")
    write_profile(Target(source="", core_url="http://core", token="t1", expires_at=1.0), profile_path(environment))

    overridden = resolve_target(None, environment)
    given = resolve_target(write_endpoints(tmp_path / "given.json"), environment)

    assert (overridden.core_url, overridden.token, overridden.expires_at) == ("http://elsewhere", "t2", None)
    assert (given.core_url, given.token) == ("http://127.0.0.1:1", None)


def test_the_profile_is_for_its_owner_alone_and_holds_no_password(tmp_path: Path) -> None:
    path = profile_path(variables(tmp_path))

    write_profile(Target(source="", core_url="http://core", token="t", password="secret"), path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in path.read_text()


def test_a_damaged_profile_ends_with_a_sentence(tmp_path: Path) -> None:
    path = profile_path(variables(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text("{")

    with pytest.raises(Failure, match="cannot be read"):
        resolve_target(None, variables(tmp_path))


def test_an_address_that_is_not_known_says_how_to_give_it(tmp_path: Path) -> None:
    with pytest.raises(NotAuthorised, match="NEXARCH_INGEST_URL"):
        resolve_target(None, variables(tmp_path)).url("ingest")


def test_no_secret_is_in_the_repr(tmp_path: Path) -> None:
    target = resolve_target(write_endpoints(tmp_path / "given.json"), {})

    assert repr(target) == f"Target(source={str(tmp_path / 'given.json')!r})"
