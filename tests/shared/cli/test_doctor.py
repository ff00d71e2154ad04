from pathlib import Path
from typing import Any

import pytest

from nexarch.cli.doctor_database import oldest_finding
from nexarch.cli.findings import clock_finding
from nexarch.old_transactions import OpenTransaction
from support.command import Command, Result
from support.database import Cluster, empty_database, free_port
from support.services import CoreApi

database = pytest.mark.database


def statuses(result: Result) -> dict[str, str]:
    return {check["check"]: check["status"] for check in result.json["checks"]}


def found(result: Result, check: str) -> dict[str, Any]:
    answer: dict[str, Any] = next(item for item in result.json["checks"] if item["check"] == check)
    return answer


@database
async def test_a_platform_that_is_well_ends_with_0(core_api: CoreApi, operator: Command, registry_dsn: str) -> None:
    tenant = await core_api.create_tenant()
    login = {"NEXARCH_TOKEN": await core_api.token(tenant), "NEXARCH_REGISTRY_DSN": registry_dsn}

    result = await operator("doctor", "--json", variables=login)

    assert result.code == 0, result.out
    assert result.json["ok"] is True
    expected = [
        "core-api", "core-api version", "core-api clock", "login", "operator's token", "registry", "PostgreSQL version",
        "PostgreSQL clock", "connections", "oldest transaction", "registry schema", "tenant schemas",
    ]  # fmt: skip
    assert {statuses(result)[check] for check in expected} == {"ok"}
    assert statuses(result)["dms-ingest"] == "skipped"


@database
async def test_pending_migrations_are_named_with_the_command_that_applies_them(
    cluster: Cluster, operator: Command
) -> None:
    async with empty_database(cluster) as dsn:
        result = await operator("doctor", "--json", variables={"NEXARCH_REGISTRY_DSN": dsn})

    assert result.code == 1
    assert found(result, "registry schema")["status"] == "fail"
    assert found(result, "registry schema")["mend"] == "Run `nexarch migrate up`."


@database
async def test_a_wrong_operators_token_and_a_service_that_is_away_are_both_told(operator: Command) -> None:
    away = f"http://127.0.0.1:{free_port()}"

    result = await operator(
        "doctor", "--json", variables={"NEXARCH_OPERATOR_TOKEN": "wrong", "NEXARCH_INGEST_URL": away}
    )

    assert result.code == 1
    assert (statuses(result)["operator's token"], statuses(result)["dms-ingest"]) == ("fail", "fail")
    assert statuses(result)["core-api"] == "ok"
    assert away in found(result, "dms-ingest")["detail"]


async def test_a_service_that_is_away_and_a_database_that_is_away_are_told(tmp_path: Path) -> None:
    port = free_port()
    variables = {
        "NEXARCH_CORE_URL": f"http://127.0.0.1:{port}",
        "NEXARCH_REGISTRY_DSN": f"postgresql://nexarch_core:hunter2@127.0.0.1:{port}/nexarch_registry",
    }

    result = await Command(tmp_path, variables)("doctor")

    assert result.code == 1
    assert "Start core-api" in result.out
    assert "Is PostgreSQL running?" in result.out
    assert "hunter2" not in result.out + result.err


@pytest.mark.parametrize(
    ("skew_s", "uncertainty_s", "status"),
    [(0.9, 1.0, "ok"), (5.9, 1.0, "ok"), (-7.0, 1.0, "warn"), (31.5, 1.0, "fail"), (-31.5, 1.0, "fail")],
)
def test_clocks_are_judged_by_what_is_certain(skew_s: float, uncertainty_s: float, status: str) -> None:
    assert clock_finding("clock", skew_s, uncertainty_s).status == status


def test_a_forgotten_transaction_is_told_with_the_session_that_holds_it() -> None:
    age_s = 3600.0
    forgotten = OpenTransaction(
        pid=4711, application="psql", database="tenant_acme", state="idle in transaction", age_s=age_s
    )

    finding = oldest_finding(forgotten, sees_others=True)

    assert finding.status == "warn"
    assert "3600 s, idle in transaction, of session 4711 (psql, tenant_acme)" in finding.detail
    assert "pg_terminate_backend(4711)" in finding.mend
    assert oldest_finding(None, sees_others=True).status == "ok"
    assert oldest_finding(None, sees_others=False).status == "skipped"
