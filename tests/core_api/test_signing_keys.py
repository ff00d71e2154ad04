"""Keys that sign user tokens: rotation."""

import asyncio

import pytest
from pydantic import SecretStr

from core_api.master_key import MasterKey
from core_api.signing_keys import NoSigningKey, RotationRunning, active_key, published_keys, rotate_keys
from nexarch.crypto.envelope import SealBroken
from nexarch.db import Connection, connect
from support.services import new_master_key

pytestmark = pytest.mark.database


@pytest.fixture
def master() -> MasterKey:
    return MasterKey(new_master_key())


async def test_the_active_key_signs_what_its_published_half_verifies(
    registry_conn: Connection, master: MasterKey
) -> None:
    await rotate_keys(registry_conn, master, 900)

    key = await active_key(registry_conn, master)

    (published,) = await published_keys(registry_conn)
    assert (published.kid, published.public_key) == (key.kid, key.private_key.public_key().public_bytes_raw())


async def test_an_old_key_is_published_until_its_last_token_has_expired(
    registry_conn: Connection, master: MasterKey
) -> None:
    old = await rotate_keys(registry_conn, master, 900)
    new = await rotate_keys(registry_conn, master, 900)
    both = {key.kid for key in await published_keys(registry_conn)}

    await registry_conn.execute("UPDATE signing_keys SET retire_at = now() WHERE state = 'retiring'")

    assert both == {old.kid, new.kid}
    assert [key.kid for key in await published_keys(registry_conn)] == [new.kid]


async def test_the_next_rotation_removes_what_has_expired(registry_conn: Connection, master: MasterKey) -> None:
    for _ in range(2):
        await rotate_keys(registry_conn, master, 900)
    await registry_conn.execute("UPDATE signing_keys SET retire_at = now() WHERE state = 'retiring'")

    await rotate_keys(registry_conn, master, 900)

    assert await registry_conn.fetchval("SELECT count(*) FROM signing_keys") == 2


async def test_without_a_key_the_answer_says_what_to_do(registry_conn: Connection, master: MasterKey) -> None:
    with pytest.raises(NoSigningKey, match="bootstrap"):
        await active_key(registry_conn, master)


async def test_a_key_does_not_open_under_another_master_key_or_in_another_row(
    registry_conn: Connection, master: MasterKey
) -> None:
    await rotate_keys(registry_conn, master, 900)

    with pytest.raises(SealBroken):
        await active_key(registry_conn, MasterKey(new_master_key()))
    await registry_conn.execute("UPDATE signing_keys SET kid = 'another'")
    with pytest.raises(SealBroken):
        await active_key(registry_conn, master)


async def test_of_two_rotations_at_once_one_wins(registry_dsn: str, master: MasterKey) -> None:
    conns = [await connect(registry_dsn, application_name="tests") for _ in range(4)]
    await rotate_keys(conns[0], master, 900)

    results = await asyncio.gather(*(rotate_keys(conn, master, 900) for conn in conns), return_exceptions=True)

    failures = [result for result in results if isinstance(result, BaseException)]
    active = await conns[0].fetchval("SELECT count(*) FROM signing_keys WHERE state = 'active'")
    for conn in conns:
        await conn.close()
    assert all(isinstance(failure, RotationRunning) for failure in failures)
    assert len(failures) < 4
    assert active == 1


def test_a_master_key_shows_nothing_of_itself() -> None:
    key = SecretStr("A" * 43 + "=")

    assert "AAAA" not in repr(MasterKey(key))
