import json
import stat
from pathlib import Path

import pytest

from support.command import Command
from support.database import free_port
from support.ingest import Ingest
from support.services import CoreApi, Tenant

pytestmark = pytest.mark.database


@pytest.fixture
def nexarch(tmp_path: Path) -> Command:
    """The command of somebody who never logged in."""
    home = tmp_path / "home"
    home.mkdir()
    return Command(home)


def profile(command: Command) -> Path:
    return command.home / "config" / "nexarch" / "profile.json"


def arguments(core_api: CoreApi, tenant: Tenant) -> list[str]:
    return ["login", "--core", core_api.url, "--tenant", tenant.slug, "--email", tenant.email]


async def test_a_login_keeps_a_token_but_no_password(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await nexarch(*arguments(core_api, tenant), "--password-stdin", stdin=tenant.password + "\n")

    assert result.code == 0, result.err
    kept = json.loads(profile(nexarch).read_text())
    assert kept["token"].count(".") == 2
    assert tenant.password not in profile(nexarch).read_text()
    assert stat.S_IMODE(profile(nexarch).stat().st_mode) == 0o600


async def test_the_password_may_come_from_the_environment(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await nexarch(*arguments(core_api, tenant), variables={"NEXARCH_PASSWORD": tenant.password})

    assert result.code == 0, result.err


async def test_a_wrong_password_ends_with_4_and_keeps_nothing(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await nexarch(*arguments(core_api, tenant), "--password-stdin", stdin="wrong password\n")

    assert result.code == 4
    assert not profile(nexarch).exists()


async def test_without_a_terminal_the_way_to_give_the_password_is_named(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await nexarch(*arguments(core_api, tenant))

    assert result.code == 1
    assert "--password-stdin" in result.err


async def test_an_expired_login_ends_with_4_before_anything_is_sent(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()
    await nexarch(*arguments(core_api, tenant), "--password-stdin", stdin=tenant.password + "\n")
    kept = json.loads(profile(nexarch).read_text())
    unused = f"http://127.0.0.1:{free_port()}"
    profile(nexarch).write_text(json.dumps(kept | {"expires_at": 1.0, "ingest_url": unused}))

    result = await nexarch("documents", "list")

    assert result.code == 4
    assert result.err == "nexarch: The login has expired. Run `nexarch login` again, then the same command.\n"


async def test_an_operator_logs_in_with_a_token(core_api: CoreApi, nexarch: Command) -> None:
    login = await nexarch(
        "login", "--operator", "--core", core_api.url, "--password-stdin", stdin=core_api.operator_token
    )
    listed = await nexarch("tenants", "list", "--json")
    await nexarch("logout")
    after = await nexarch("tenants", "list")

    assert (login.code, listed.code, after.code) == (0, 0, 4)


async def test_a_login_elsewhere_forgets_the_operators_token_of_the_first(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()
    profile(nexarch).parent.mkdir(parents=True)
    profile(nexarch).write_text(json.dumps({"core_url": "http://elsewhere", "operator_token": "of-elsewhere"}))

    await nexarch(*arguments(core_api, tenant), "--password-stdin", stdin=tenant.password + "\n")

    assert "of-elsewhere" not in profile(nexarch).read_text()


async def test_a_service_that_is_away_ends_with_5_in_one_line(nexarch: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    result = await nexarch("tenants", "list", variables={"NEXARCH_CORE_URL": url, "NEXARCH_OPERATOR_TOKEN": "t"})

    assert (result.code, result.out) == (5, "")
    assert len(result.err.splitlines()) == 1
    assert url in result.err


async def test_the_token_of_a_login_is_printed_for_other_programs(core_api: CoreApi, nexarch: Command) -> None:
    tenant = await core_api.create_tenant()
    nobody = await nexarch("token")
    await nexarch(*arguments(core_api, tenant), "--password-stdin", stdin=tenant.password + "\n")

    result = await nexarch("token")

    assert nobody.code == 4
    assert result.code == 0, result.err
    assert result.out.strip() == json.loads(profile(nexarch).read_text())["token"]


async def test_a_token_that_is_refused_is_renewed_where_the_password_is_known(
    core_api: CoreApi, ingest: Ingest, nexarch: Command
) -> None:
    tenant = await core_api.create_tenant()
    variables = {"NEXARCH_PASSWORD": tenant.password}
    await nexarch(*arguments(core_api, tenant), "--ingest", ingest.url, variables=variables)
    kept = json.loads(profile(nexarch).read_text())
    profile(nexarch).write_text(json.dumps(kept | {"token": "not.a.token"}))

    alone = await nexarch("documents", "list")
    with_password = await nexarch("documents", "list", variables=variables)

    assert (alone.code, with_password.code) == (4, 0)


async def test_the_endpoints_of_a_running_platform_need_no_login(
    core_api: CoreApi, ingest: Ingest, nexarch: Command
) -> None:
    tenant = await core_api.create_tenant()
    demo = {"tenant": tenant.slug, "email": tenant.email, "password": tenant.password}
    endpoints = {"core_api": core_api.url, "dms_ingest": ingest.url, "operator_token": core_api.operator_token}
    (nexarch.home / "endpoints.json").write_text(json.dumps(endpoints | {"demo": demo}))

    as_user = await nexarch("documents", "list", "--endpoints", "endpoints.json", "--json")
    as_operator = await nexarch("--json", "--endpoints", "endpoints.json", "tenants", "list")
    stopped = await nexarch("documents", "list", "--endpoints", "nowhere.json")

    assert as_user.json == {"items": [], "next_cursor": None}
    assert [item["slug"] for item in as_operator.json["items"]] == [tenant.slug]
    assert stopped.code == 5
