from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pydantic import SecretStr, ValidationError
from pytest_aiohttp import AiohttpClient

from dms_ingest.app import create_app
from dms_ingest.settings import Settings
from nexarch.settings import load
from support.database import free_port

pytestmark = pytest.mark.database

Client = TestClient[web.Request, web.Application]


@pytest.fixture
async def lonely_client(bus_dsn: str, tmp_path: Path, aiohttp_client: AiohttpClient) -> Client:
    """The service with everything but a core-api."""
    settings = Settings(
        core_api_url=f"http://127.0.0.1:{free_port()}",
        client_id="dms_ingest",
        client_secret=SecretStr("secret"),
        base_url="http://127.0.0.1:8090",
        bus_dsn=SecretStr(bus_dsn),
        staging_dir=tmp_path / "staging",
        storage_dir=tmp_path / "objects",
        link_key=SecretStr("k" * 32),
    )
    return await aiohttp_client(create_app(settings))


async def test_it_starts_without_core_api_and_says_so(lonely_client: Client) -> None:
    live = await lonely_client.get("/livez")
    ready = await lonely_client.get("/readyz")

    body = await ready.json()
    assert live.status == 200
    assert ready.status == 503
    assert body["failed"].get("core-api") == "CoreApiAway"
    assert "storage" not in body["failed"]
    assert "staging" not in body["failed"]


async def test_a_folder_that_takes_no_file_is_not_ready(lonely_client: Client, tmp_path: Path) -> None:
    (tmp_path / "staging").rmdir()

    response = await lonely_client.get("/readyz")

    assert (await response.json())["failed"]["staging"] == "FileNotFoundError"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link_key = tmp_path / "link-key"
    link_key.write_text("k" * 40 + "\n" + "o" * 32 + "\n")
    variables = {
        "CORE_API_URL": "http://127.0.0.1:8080",
        "CLIENT_ID": "dms_ingest",
        "CLIENT_SECRET": "secret",
        "BASE_URL": "http://127.0.0.1:8090",
        "BUS_DSN": "postgresql://nexarch_bus:hunter2@127.0.0.1/nexarch_registry",
        "STAGING_DIR": "/var/lib/nexarch/staging",
        "STORAGE_DIR": "/var/lib/nexarch/objects",
        "LINK_KEY_FILE": str(link_key),
        "ALLOWED_TYPES": "application/pdf, Text/Plain",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"DMS_INGEST_{name}", value)

    settings = load(Settings)

    assert settings.allowed_types == {"application/pdf", "text/plain"}
    assert settings.max_upload_bytes == 20 * 1024**3
    assert settings.link_key.get_secret_value() == "k" * 40 + "\n" + "o" * 32
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("keys", ["", " ", "k" * 31, "k" * 40 + " short"])
def test_a_key_for_links_that_is_too_short_is_refused_at_the_start(keys: str) -> None:
    with pytest.raises(ValidationError, match="link_key") as refused:
        Settings(link_key=SecretStr(keys))

    assert "short" not in str(refused.value).replace("too_short", "")
