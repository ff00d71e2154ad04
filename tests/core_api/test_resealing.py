"""Another master key: everything sealed under the old one is sealed anew, and nothing needs the old one any more."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from core_api import resealing
from core_api.master_key import MasterKey
from core_api.resealing import Sealed, reseal
from core_api.signing_keys import active_key, rotate_keys
from core_api.tenant_access import open_login
from core_api.tenant_keys import open_key
from nexarch.crypto.envelope import SealBroken
from nexarch.db import Connection, connect
from support.services import CoreApi, Tenant, new_master_key

pytestmark = pytest.mark.database


@dataclass(frozen=True)
class Keys:
    """The master key that a registry was made with, and the one that is to replace it."""

    old: SecretStr
    new: SecretStr

    @property
    def both(self) -> SecretStr:
        return SecretStr(f"{self.new.get_secret_value()}\n{self.old.get_secret_value()}")


@pytest.fixture
def keys(core_api: CoreApi) -> Keys:
    return Keys(core_api.settings.master_key, new_master_key())


@pytest.fixture
async def conn(core_api: CoreApi) -> AsyncIterator[Connection]:
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    yield conn
    await conn.close()


async def secrets_of(conn: Connection, key: SecretStr, tenant: Tenant) -> tuple[object, ...]:
    """All that is sealed for a tenant and for the platform, opened with this master key alone."""
    master = MasterKey(key)
    kek = await open_key(conn, master, tenant.id)
    login = await open_login(conn, master, tenant.id)
    signing = await active_key(conn, master)
    return kek, login.password, signing.private_key.private_bytes_raw()


async def test_every_secret_opens_with_the_new_key_alone_and_none_with_the_old(
    core_api: CoreApi, conn: Connection, keys: Keys
) -> None:
    tenants = [await core_api.create_tenant() for _ in range(3)]
    await core_api.call("POST", f"/v1/tenants/{tenants[0].slug}/kek/rotate")
    before = [await secrets_of(conn, keys.old, tenant) for tenant in tenants]

    progress = await reseal(conn, MasterKey(keys.both))

    assert [(each.rows, each.resealed, each.left) for each in progress] == [(3, 3, 0), (4, 4, 0), (1, 1, 0)]
    assert [await secrets_of(conn, keys.new, tenant) for tenant in tenants] == before
    with pytest.raises(SealBroken):
        await secrets_of(conn, keys.old, tenants[0])
    assert (await open_key(conn, MasterKey(keys.new), tenants[0].id, 1))[1] == 1


async def test_both_keys_open_what_either_sealed_and_the_first_seals(
    core_api: CoreApi, conn: Connection, keys: Keys
) -> None:
    tenant = await core_api.create_tenant()
    await secrets_of(conn, keys.both, tenant)

    await rotate_keys(conn, MasterKey(keys.both), 900)

    await active_key(conn, MasterKey(keys.new))
    await secrets_of(conn, keys.both, tenant)


async def test_done_again_it_changes_nothing(core_api: CoreApi, conn: Connection, keys: Keys) -> None:
    await core_api.create_tenant()
    await reseal(conn, MasterKey(keys.both))
    sql = "SELECT sealed_kek, sealed_password FROM tenant_keys JOIN tenants ON id = tenant_id"
    before = await conn.fetch(sql)

    progress = await reseal(conn, MasterKey(keys.both))

    assert [each.resealed for each in progress] == [0, 0, 0]
    assert await conn.fetch(sql) == before


async def test_cut_short_anywhere_it_goes_on_and_every_secret_opens_meanwhile(
    core_api: CoreApi, conn: Connection, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = [await core_api.create_tenant() for _ in range(3)]
    before = [await secrets_of(conn, keys.old, tenant) for tenant in tenants]
    sealed: list[int] = []
    seal = MasterKey.seal

    def dies(self: MasterKey, *args: Any) -> bytes:  # noqa: ANN401
        if len(sealed) == 5:
            raise KeyboardInterrupt
        sealed.append(1)
        return seal(self, *args)

    with monkeypatch.context() as dying:
        dying.setattr(MasterKey, "seal", dies)
        with pytest.raises(KeyboardInterrupt):
            await reseal(conn, MasterKey(keys.both))
    half = [await secrets_of(conn, keys.both, tenant) for tenant in tenants]
    progress = await reseal(conn, MasterKey(keys.both))

    assert half == before
    assert sum(each.resealed for each in progress) == 7 - 5
    assert [await secrets_of(conn, keys.new, tenant) for tenant in tenants] == before


async def test_a_row_that_changed_meanwhile_keeps_its_own_secret(
    core_api: CoreApi, conn: Connection, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another core-api, which has the old key only, replaces a secret between our look and our write."""
    tenant = await core_api.create_tenant()
    fresh = MasterKey(keys.old).seal(b"f" * 32, "nexarch/kek/1", tenant.id.bytes, (1).to_bytes(4, "big"))
    replace = resealing._replace_kek

    async def too_late(conn: Connection, row: Sealed, sealed: bytes) -> None:
        await conn.execute("UPDATE tenant_keys SET sealed_kek = $1", fresh)
        await replace(conn, row, sealed)

    places = [
        place
        if place.name != "tenant_keys.sealed_kek"
        else resealing._Place(place.name, place.purpose, place.read, too_late)
        for place in resealing._PLACES
    ]
    with monkeypatch.context() as racing:
        racing.setattr(resealing, "_PLACES", places)
        raced = await reseal(conn, MasterKey(keys.both))
    again = await reseal(conn, MasterKey(keys.both))

    assert {each.place: each.left for each in raced}["tenant_keys.sealed_kek"] == 1
    assert all(each.left == 0 for each in again)
    assert await open_key(conn, MasterKey(keys.new), tenant.id) == (b"f" * 32, 1)


async def test_what_no_key_opens_is_counted_as_left_and_stops_nothing(
    core_api: CoreApi, conn: Connection, keys: Keys
) -> None:
    tenants = [await core_api.create_tenant() for _ in range(2)]
    await conn.execute(
        "UPDATE tenant_keys SET sealed_kek = decode(repeat('00', 60), 'hex') WHERE tenant_id = $1", tenants[0].id
    )

    progress = {each.place: each for each in await reseal(conn, MasterKey(keys.both))}

    assert (progress["tenant_keys.sealed_kek"].resealed, progress["tenant_keys.sealed_kek"].left) == (1, 1)
    assert progress["tenants.sealed_password"].left == 0
    assert (await open_key(conn, MasterKey(keys.new), tenants[1].id))[1] == 1


async def test_two_at_once_do_it_once(core_api: CoreApi, conn: Connection, keys: Keys) -> None:
    tenants = [await core_api.create_tenant() for _ in range(3)]
    other = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")

    await asyncio.gather(reseal(conn, MasterKey(keys.both)), reseal(other, MasterKey(keys.both)))

    await other.close()
    for tenant in tenants:
        await secrets_of(conn, keys.new, tenant)


async def test_every_sealed_column_of_the_registry_is_known_here(conn: Connection) -> None:
    sql = """
        SELECT table_name || '.' || column_name
        FROM information_schema.columns
        WHERE table_schema = 'public' AND column_name LIKE 'sealed%'
    """
    assert {row[0] for row in await conn.fetch(sql)} == {place.name for place in resealing._PLACES}
