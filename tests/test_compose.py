"""docker-compose.yml and .env.example against the settings of the services and against the rules of the deployment.

That the whole starts and works is `make compose-test`, which needs a Docker engine.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

import alerter.settings
import core_api.settings
import dms_ingest.settings
import dms_worker.settings
from nexarch.containers import SERVICES
from nexarch.settings import ServiceSettings, load

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
CONTAINERS: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {"secrets", "bootstrap"}
SETTINGS: dict[str, type[ServiceSettings]] = {
    "core-api": core_api.settings.Settings,
    "dms-ingest": dms_ingest.settings.Settings,
    "dms-worker": dms_worker.settings.Settings,
    "alerter": alerter.settings.Settings,
}
_NEEDED = {
    "REGISTRY_DSN": "postgresql://u:p@h/d",
    "MASTER_KEY": "A" * 43 + "=",
    "CORE_API_URL": "http://core-api:8080",
    "BASE_URL": "http://here:1",
    "CLIENT_ID": "x",
    "CLIENT_SECRET": "x",
    "BUS_DSN": "x",
    "LINK_KEY": "x" * 32,
    "STAGING_DIR": "/srv/staging",
    "STORAGE_DIR": "/srv/objects",
}


def prefix(service: str) -> str:
    return service.replace("-", "_").upper() + "_"


def variables(service: str) -> set[str]:
    """Every variable that a service reads, without the `_FILE` that texts may have."""
    return {f"{prefix(service)}{name}".upper() for name in SETTINGS[service].model_fields}


def example() -> tuple[dict[str, str], set[str]]:
    """The variables that .env.example sets, and the names of those that it shows only."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    found = [match for line in lines if (match := re.fullmatch(r"(# )?([A-Z][A-Z0-9_]+)=(.*)", line))]
    return {m[2]: m[3] for m in found if not m[1]}, {m[2] for m in found if m[1]}


@pytest.mark.parametrize("service", SETTINGS)
def test_the_example_and_the_compose_file_name_every_setting_and_no_other(service: str) -> None:
    given, shown = example()
    own = {name.removesuffix("_FILE") for name in {*given, *shown} if name.startswith(prefix(service))}
    passed = {name.removesuffix("_FILE") for name in CONTAINERS[service]["environment"]} - {"TMPDIR"}
    of_compose = {f"{prefix(service)}{name}" for name in ("MEMORY", "PUBLISHED_PORT")}

    assert own - of_compose == variables(service)
    assert passed == variables(service)


@pytest.mark.parametrize("service", SETTINGS)
def test_the_values_of_the_example_are_the_defaults(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = example()
    for name in variables(service):
        if (value := given.get(name, _NEEDED.get(name.removeprefix(prefix(service))))) is not None:
            monkeypatch.setenv(name, value)

    settings = load(SETTINGS[service])

    for name, field in SETTINGS[service].model_fields.items():
        if f"{prefix(service)}{name}".upper() in given:
            assert getattr(settings, name) == field.default, name


@pytest.mark.parametrize("service", SETTINGS)
def test_what_the_example_sets_reaches_the_service(service: str) -> None:
    given, shown = example()
    environment: dict[str, Any] = CONTAINERS[service]["environment"]

    left_to_the_user = {name for name, value in environment.items() if value is None}

    assert {name for name in given if name in variables(service)} <= left_to_the_user
    assert left_to_the_user <= {*given, *shown}


def test_the_example_has_the_defaults_of_the_compose_file() -> None:
    given, _ = example()
    text = (ROOT / "docker-compose.yml").read_text()
    read = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))

    assert len(read) == len(set(re.findall(r"\$\{([A-Z_]+)", text)))
    assert {name: given.get(name) for name in read} == read


@pytest.mark.parametrize("service", SETTINGS)
def test_a_secret_comes_from_a_file_that_its_service_is_given(service: str) -> None:
    environment: dict[str, Any] = CONTAINERS[service]["environment"]
    secret = {
        f"{prefix(service)}{name}".upper()
        for name, field in SETTINGS[service].model_fields.items()
        if SecretStr in {field.annotation, *getattr(field.annotation, "__args__", ())}
    }
    files = {value.removeprefix("/run/secrets/") for name, value in environment.items() if name.endswith("_FILE")}

    assert {name for name in environment if name in secret} == set()
    assert {f"{name}_FILE" for name in secret} <= set(environment)
    assert files == set(SERVICES[service])


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_has_no_rights_and_bounded_memory(container: str) -> None:
    described = CONTAINERS[container]

    assert described["read_only"] is True
    assert described["cap_drop"] == ["ALL"]
    assert described["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in described
    assert "privileged" not in described
    assert "cap_add" not in described


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_says_whether_it_is_well_or_ends(container: str) -> None:
    described = CONTAINERS[container]

    if container in ONCE:
        assert described["restart"] == "no"
    else:
        assert described["restart"] == "unless-stopped"
        assert described["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    for needed, waits in described.get("depends_on", {}).items():
        ended = "service_completed_successfully" if needed in ONCE else "service_healthy"
        assert waits["condition"] == ended, (container, needed)


def test_the_folder_of_postgres_sockets_is_its_own_after_a_restart_too() -> None:
    """At a restart Docker makes it root's, and takes no `mode`, where the image has no such folder."""
    (options,) = (m.split(":")[1] for m in CONTAINERS["postgres"]["tmpfs"] if m.startswith("/run/postgresql:"))

    assert {"uid=999", "gid=999"} <= set(options.split(","))


@pytest.mark.parametrize("container", [*SETTINGS, "front"])
def test_a_container_that_is_told_to_stop_has_the_time_that_its_service_takes(container: str) -> None:
    given, _ = example()
    service = prefix("dms-ingest" if container == "front" else container)
    takes_s = float(given[f"{service}DRAIN_DELAY_S"]) + float(given[f"{service}GRACE_PERIOD_S"])

    assert CONTAINERS[container]["stop_grace_period"] == "${NEXARCH_STOP_GRACE_PERIOD:-35s}"
    assert float(given["NEXARCH_STOP_GRACE_PERIOD"].removesuffix("s")) > takes_s


def test_the_heap_of_the_object_store_ends_well_below_its_memory() -> None:
    given, _ = example()
    memory_mib = float(given["SEAWEEDFS_MEMORY"].removesuffix("g")) * 1024

    assert CONTAINERS["object-store"]["environment"]["GOMEMLIMIT"] == "${SEAWEEDFS_HEAP:-640MiB}"
    assert float(given["SEAWEEDFS_HEAP"].removesuffix("MiB")) <= 0.67 * memory_mib


def test_what_the_object_store_reads_ahead_fits_into_its_heap() -> None:
    """0, its own default, is no limit: then a download of 1 GiB takes 1 GiB of memory."""
    given, _ = example()
    (read_ahead_mib,) = (
        float(argument.partition("=")[2])
        for argument in CONTAINERS["object-store"]["command"]
        if argument.startswith("-s3.readerCacheSizeMB=")
    )

    assert 0 < read_ahead_mib <= 0.5 * float(given["SEAWEEDFS_HEAP"].removesuffix("MiB"))


def test_only_core_api_and_the_front_of_dms_ingest_are_published_and_only_to_this_computer() -> None:
    published = {name: ports for name, described in CONTAINERS.items() if (ports := described.get("ports"))}

    assert set(published) == {"core-api", "front"}
    for ports in published.values():
        assert [port.startswith("${NEXARCH_BIND:-127.0.0.1}:") for port in ports] == [True]


def test_a_volume_of_secrets_is_seen_by_its_holder_and_by_those_that_fill_it() -> None:
    seen: dict[str, set[str]] = {}
    for name, described in CONTAINERS.items():
        for volume in described.get("volumes", []):
            if volume.startswith("secrets-"):
                seen.setdefault(volume.split(":")[0].removeprefix("secrets-"), set()).add(name)
                assert name in ONCE or volume.endswith(":/run/secrets:ro"), (name, volume)

    assert seen.pop("platform") == ONCE
    for holder, who in seen.items():
        assert who - ONCE == {holder}
        assert len(who & ONCE) == 1


def test_what_is_built_is_an_image_of_its_own_name_and_of_the_version_that_is_set() -> None:
    """Under a name for two, compose 2 takes the one for outdated as soon as the other is built."""
    built = {name: described["image"] for name, described in CONTAINERS.items() if "build" in described}

    assert built == {name: f"nexarch/{name}:${{NEXARCH_VERSION:-{example()[0]['NEXARCH_VERSION']}}}" for name in built}
    assert set(built) == {*SETTINGS, *ONCE, "front"}


def test_the_images_are_of_this_version() -> None:
    versions = {
        tomllib.loads(path.read_text())["project"]["version"]
        for path in [ROOT / "shared/pyproject.toml", *ROOT.glob("services/*/pyproject.toml")]
    }

    labels = set(re.findall(r"ARG VERSION=(\S+)", (ROOT / "Dockerfile").read_text()))

    assert {example()[0]["NEXARCH_VERSION"]} == versions == labels
