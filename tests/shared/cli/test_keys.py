"""`nexarch keys` against a running core-api."""

import pytest

from support.command import Command
from support.services import CoreApi, new_master_key

pytestmark = pytest.mark.database


async def test_the_command_says_what_is_left_and_ends_with_1_until_nothing_is(
    core_api: CoreApi, operator: Command
) -> None:
    await core_api.create_tenant()
    old, new = core_api.settings.master_key.get_secret_value(), new_master_key().get_secret_value()
    registry = core_api.settings.registry_dsn.get_secret_value()

    def variables(*keys: str) -> dict[str, str]:
        return {"CORE_API_REGISTRY_DSN": registry, "CORE_API_MASTER_KEY": "\n".join(keys)}

    without_the_old = await operator("keys", "rotate-master", "--json", variables=variables(new))
    table = await operator("keys", "rotate-master", variables=variables(new, old))
    afterwards = await operator("keys", "rotate-master", "--json", variables=variables(new))
    unset = await operator("keys", "rotate-master")

    assert (without_the_old.code, without_the_old.json["left"]) == (1, 3)
    assert table.code == 0, table.err
    assert "tenant_keys.sealed_kek" in table.out
    assert (afterwards.code, afterwards.json["left"]) == (0, 0)
    assert unset.code == 1
    assert "CORE_API_MASTER_KEY" in unset.err
    for result in (without_the_old, table, afterwards, unset):
        assert new not in result.out + result.err


async def test_a_tenants_key_is_rotated_listed_and_shredded_from_the_command_line(
    core_api: CoreApi, operator: Command
) -> None:
    slug = (await core_api.create_tenant()).slug

    rotated = await operator("keys", "rotate", slug, "--json")
    listed = await operator("keys", "list", slug)
    at_work = await operator("keys", "shred", slug, "--confirm", slug)
    await operator("tenants", "suspend", slug)
    not_meant = await operator("keys", "shred", slug, "--confirm", "another")
    shredded = await operator("keys", "shred", slug, "--confirm", slug, "--json")

    assert [each["state"] for each in rotated.json] == ["active", "retiring"]
    assert "retiring" in listed.out
    assert (at_work.code, not_meant.code) == (1, 1)
    assert "suspend it first" in at_work.err
    assert {each["state"] for each in shredded.json} == {"shredded"}
