from pathlib import Path

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from nexarch.settings import ServiceSettings, load


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="DEMO_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=1, ge=0, le=65535)
    key: SecretStr
    other_key: SecretStr | None = None
    client_id: str = "none"


def test_a_text_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("hunter2\n")
    monkeypatch.setenv("DEMO_KEY_FILE", str(file))
    monkeypatch.setenv("DEMO_OTHER_KEY_FILE", str(file))
    monkeypatch.setenv("DEMO_CLIENT_ID_FILE", str(file))

    settings = load(Settings)

    assert settings.key.get_secret_value() == "hunter2"
    assert settings.other_key is not None
    assert settings.client_id == "hunter2"
    assert "hunter2" not in repr(settings.key)


def test_only_texts_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "port"
    file.write_text("99")
    monkeypatch.setenv("DEMO_KEY", "x")
    monkeypatch.setenv("DEMO_PORT_FILE", str(file))

    assert load(Settings).port == 1


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "DEMO_KEY"),
        ({"DEMO_KEY": "hunter2", "DEMO_KEY_FILE": "/nowhere"}, "DEMO_KEY_FILE"),
        ({"DEMO_KEY_FILE": "/nowhere/at/all"}, "DEMO_KEY_FILE"),
        ({"DEMO_KEY": "hunter2", "DEMO_PORT": "65536"}, "DEMO_PORT"),
        ({"DEMO_KEY": "hunter2", "DEMO_GRACE_PERIOD_S": "-1"}, "DEMO_GRACE_PERIOD_S"),
    ],
)
def test_a_wrong_variable_ends_the_process_with_2_and_is_named(
    variables: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit) as stopped:
        load(Settings)

    output = capsys.readouterr().err
    assert stopped.value.code == 2
    assert named in output
    assert "hunter2" not in output
