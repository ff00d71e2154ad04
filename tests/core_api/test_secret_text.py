"""The form of our secrets."""

from core_api.secret_text import digest, is_well_formed, new_module_secret, new_operator_token


def test_a_new_secret_is_well_formed_and_unlike_any_other() -> None:
    made = [new_operator_token() for _ in range(50)] + [new_module_secret("dms_ingest-0a1b") for _ in range(50)]

    assert all(is_well_formed(secret) for secret in made)
    assert len(set(made)) == 100


def test_a_typo_anywhere_is_noticed_without_a_database() -> None:
    for secret in (new_operator_token(), new_module_secret("a_b")):
        for place in range(len(secret)):
            typo = secret[:place] + ("A" if secret[place] != "A" else "B") + secret[place + 1 :]
            assert not is_well_formed(typo)


def test_what_stands_around_a_secret_is_not_overlooked() -> None:
    secret = new_operator_token()

    for text in (f"{secret}\n", f" {secret}", f"{secret} ", secret.upper(), secret * 2, "", secret[:-1]):
        assert not is_well_formed(text)


def test_any_text_from_outside_has_a_digest() -> None:
    assert len(digest("\udcff\0ä")) == 32
