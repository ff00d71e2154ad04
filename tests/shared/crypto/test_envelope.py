from uuid import UUID, uuid4

import pytest

from nexarch.crypto.envelope import SealBroken, new_dek, open_sealed, seal, unwrap_dek, wrap_dek
from nexarch.crypto.fields import encode_fields

KEK = bytes(range(32))
TENANT = UUID("0198c0de-0000-7000-8000-000000000001")
REVISION = UUID("0198c0de-0000-7000-8000-000000000002")


def test_a_wrapped_key_comes_back() -> None:
    dek = new_dek()

    wrapped = wrap_dek(KEK, dek, tenant_id=TENANT, revision_id=REVISION, kek_version=3)

    assert len(wrapped) == 60
    assert dek not in wrapped
    assert unwrap_dek(KEK, wrapped, tenant_id=TENANT, revision_id=REVISION, kek_version=3) == dek


def test_a_key_wrapped_for_another_tenant_revision_version_or_kek_is_refused() -> None:
    wrapped = wrap_dek(KEK, new_dek(), tenant_id=TENANT, revision_id=REVISION, kek_version=3)

    with pytest.raises(SealBroken):
        unwrap_dek(KEK, wrapped, tenant_id=uuid4(), revision_id=REVISION, kek_version=3)
    with pytest.raises(SealBroken):
        unwrap_dek(KEK, wrapped, tenant_id=TENANT, revision_id=uuid4(), kek_version=3)
    with pytest.raises(SealBroken):
        unwrap_dek(KEK, wrapped, tenant_id=TENANT, revision_id=REVISION, kek_version=4)
    with pytest.raises(SealBroken) as refusal:
        unwrap_dek(bytes(32), wrapped, tenant_id=TENANT, revision_id=REVISION, kek_version=3)
    assert wrapped.hex() not in refusal.value.detail


def test_any_flipped_bit_or_cut_of_a_sealed_secret_is_refused() -> None:
    sealed = seal(KEK, b"a password", b"context")

    for bit in range(len(sealed) * 8):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealBroken):
            open_sealed(KEK, bytes(damaged), b"context")
    for size in range(len(sealed)):
        with pytest.raises(SealBroken):
            open_sealed(KEK, sealed[:size], b"context")


def test_a_secret_opens_only_in_its_context() -> None:
    sealed = seal(KEK, b"a password", b"database of acme")

    assert open_sealed(KEK, sealed, b"database of acme") == b"a password"
    with pytest.raises(SealBroken):
        open_sealed(KEK, sealed, b"database of beta")


def test_sealing_twice_gives_different_bytes() -> None:
    assert seal(KEK, b"same", b"") != seal(KEK, b"same", b"")


def test_a_short_key_is_a_mistake_of_the_caller() -> None:
    # AES would take 16 bytes without a word.
    with pytest.raises(ValueError, match="32 bytes"):
        seal(bytes(16), b"secret", b"")
    with pytest.raises(ValueError, match="32 bytes"):
        open_sealed(bytes(16), seal(KEK, b"secret", b""), b"")


def test_nothing_slides_from_one_field_into_the_next() -> None:
    assert encode_fields(b"doc/1", b"23") != encode_fields(b"doc/12", b"3")
    assert encode_fields(b"ab") == b"\x00\x00\x00\x02ab"
