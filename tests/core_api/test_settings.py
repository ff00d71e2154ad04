"""core-api's settings."""

import base64

import pytest
from pydantic import SecretStr, ValidationError

from core_api.settings import Settings

DSN = "postgresql://nexarch_core:pa55word@db.example.org:5433/nexarch_registry"
MASTER_KEY = base64.b64encode(b"k" * 32).decode()


def settings(**changes: object) -> Settings:
    values: dict[str, object] = {"registry_dsn": DSN, "master_key": MASTER_KEY}
    return Settings.model_validate(values | changes)


def test_modules_are_told_the_address_that_core_api_uses_unless_another_one_is_set() -> None:
    assert settings().tenant_database == ("db.example.org", 5433)
    assert settings(tenant_database_host="pg", tenant_database_port=6432).tenant_database == ("pg", 6432)


@pytest.mark.parametrize(
    "key", ["", "short", base64.b64encode(b"k" * 31).decode(), MASTER_KEY + "=", "ä" * 44, f"{MASTER_KEY}\nshort"]
)
def test_a_master_key_of_another_form_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(master_key=SecretStr(key))

    assert "32 random bytes" in str(refused.value)
    assert not key or key not in str(refused.value)


def test_several_master_keys_stand_one_a_line() -> None:
    keys = SecretStr(f"{MASTER_KEY}\n{MASTER_KEY}\n")

    assert settings(master_key=keys).master_key == keys


@pytest.mark.parametrize("dsn", ["", "nonsense", "mysql://a:b@c/d", "postgresql://host/db", "postgresql://u:p4ss@host"])
def test_an_address_that_is_no_registry_is_refused_and_not_repeated(dsn: str) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(registry_dsn=SecretStr(dsn))

    assert "p4ss" not in str(refused.value)


def test_a_printed_setting_shows_no_secret() -> None:
    printed = repr(settings())

    assert "pa55word" not in printed
    assert MASTER_KEY not in printed
