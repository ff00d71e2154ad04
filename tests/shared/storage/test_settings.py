from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict

from nexarch.settings import EXIT_BAD_SETTINGS, ServiceSettings, load
from nexarch.storage import StorageSettings

S3 = {"DRIVER": "s3", "ACCESS_KEY": "us", "SECRET_KEY": "hidden-from-all", "BUCKET": "nexarch-{tenant}"}


class Settings(ServiceSettings, StorageSettings):
    model_config = SettingsConfigDict(env_prefix="X_", hide_input_in_errors=True)

    port: int = 1


def loaded(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(f"X_STORAGE_{name}", value)
    return load(Settings)


def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **variables: str) -> list[str]:
    with pytest.raises(SystemExit) as stopped:
        loaded(monkeypatch, **variables)
    assert stopped.value.code == EXIT_BAD_SETTINGS
    return capsys.readouterr().err.splitlines()[1:]


def test_a_folder_is_all_that_the_local_driver_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, DIR="/srv/objects")

    assert (settings.storage_driver, settings.storage_dir) == ("local", Path("/srv/objects"))


def test_without_a_folder_the_local_driver_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = complaint(monkeypatch, capsys)

    assert "X_STORAGE_DIR" in line
    assert "is needed where STORAGE_DRIVER is local" in line


def test_s3_needs_keys_and_a_bucket_and_no_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = complaint(monkeypatch, capsys, DRIVER="s3")

    assert [line.split(":")[0].strip() for line in lines] == [
        "X_STORAGE_ACCESS_KEY", "X_STORAGE_SECRET_KEY", "X_STORAGE_BUCKET",
    ]  # fmt: skip


def test_the_secret_may_come_from_a_file_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden-from-all\n")
    given = {name: value for name, value in S3.items() if name != "SECRET_KEY"}

    settings = loaded(monkeypatch, **given, SECRET_KEY_FILE=str(tmp_path / "secret"))

    assert settings.storage_secret_key == SecretStr("hidden-from-all")
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DRIVER", "ftp"),
        *(("ENDPOINT", url) for url in ("s3.example.org", "ftp://s3.example.org", "https://user:pw@s3.example.org")),
        *(("BUCKET", name) for name in ("Nexarch", "ne xarch", "-nexarch", "nexarch-", "{Tenant}", "../x")),
        ("ADDRESSING", "host"),
        ("CA", "/nowhere/ca.pem"),
    ],
)
def test_a_wrong_value_is_named_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    (line,) = complaint(monkeypatch, capsys, **S3 | {name: value})

    assert line.strip().startswith(f"X_STORAGE_{name}:")
    assert "pw" not in line
    assert "hidden" not in line


@pytest.mark.parametrize("bucket", ["nexarch", "nexarch-{tenant}", "{tenant}-nexarch", "a.b"])
@pytest.mark.parametrize("endpoint", ["http://seaweedfs:8333", "https://s3.example.org/", "https://example.org/s3"])
def test_a_right_value_is_taken(monkeypatch: pytest.MonkeyPatch, bucket: str, endpoint: str) -> None:
    changes: dict[str, Any] = {"BUCKET": bucket, "ENDPOINT": endpoint}

    settings = loaded(monkeypatch, **S3 | changes)

    assert (settings.storage_bucket, settings.storage_endpoint) == (bucket, endpoint)


def test_fingerprints_name_what_says_where_objects_lie_and_reveal_nothing() -> None:
    local = StorageSettings(storage_dir=Path("/srv/objects")).fingerprints()
    elsewhere = StorageSettings(storage_dir=Path("/srv/others")).fingerprints()
    common: dict[str, Any] = {"storage_driver": "s3", "storage_access_key": "us", "storage_bucket": "nexarch"}
    one = StorageSettings(**common, storage_secret_key=SecretStr("a")).fingerprints()
    same = StorageSettings(**common, storage_secret_key=SecretStr("b")).fingerprints()

    assert {*local} == {"STORAGE_DRIVER", "STORAGE_DIR"}
    assert local["STORAGE_DRIVER"] == elsewhere["STORAGE_DRIVER"]
    assert local["STORAGE_DIR"] != elsewhere["STORAGE_DIR"]
    assert {*one} == {"STORAGE_DRIVER", "STORAGE_ENDPOINT", "STORAGE_BUCKET"}
    assert one == same
    assert all(len(value) == 16 for value in (local | one).values())
