"""Every rule that the registry's SQL holds, broken once: the statement, and the constraint that refuses it."""

import pytest

from nexarch.db import Connection
from support.refusals import insert, names_that_are_none, refused_by, rules

pytestmark = pytest.mark.database

SHA = "sha256('x')"
SEALED = "decode(repeat('00', 60), 'hex')"
NOBODY = "'00000000-0000-7000-8000-000000000000'"
ACME = "(SELECT id FROM tenants WHERE slug = 'acme')"

TENANT = {"slug": "'umbrella'", "name": "'Umbrella'"}
KEY = {"tenant_id": ACME, "version": "2", "sealed_kek": SEALED, "state": "'retiring'"}
OPERATOR = {"name": "'second'", "token_sha256": "sha256('second')"}
FLAG = {"key": "'new.flag-1'"}
FLAG_TENANT = {"flag_key": "'search'", "tenant_id": ACME}
MODULE = {"id": "'thumbs'", "version": "'1.0.0'"}
MODULE_STORE = {"module_id": "'dms_ingest'", "settings": "'{}'"}
CREDENTIAL = {"module_id": "'dms_ingest'", "client_id": "'other'", "secret_sha256": SHA}
SIGNING_KEY = {
    "kid": "'k2'",
    "public_key": SHA,
    "sealed_private_key": SEALED,
    "state": "'retiring'",
    "retire_at": "now()",
}
DELTA = {
    "id": "uuidv7()",
    "tenant_id": ACME,
    "metric": "'storage_bytes'",
    "delta": "1",
    "module_id": "'dms_ingest'",
}
TOTAL = {"tenant_id": ACME, "metric": "'pages'", "value": "1"}

PRESENT = [
    insert("tenants", TENANT, slug="'acme'", name="'Acme'", creation_key="'key-of-acme'"),
    insert("tenant_keys", KEY, version="1", state="'active'"),
    insert("operators", OPERATOR, name="'first'", token_sha256="sha256('first')"),
    insert("feature_flags", FLAG, key="'search'"),
    insert("flag_tenants", FLAG_TENANT),
    insert("modules", MODULE, id="'dms_ingest'"),
    insert("modules", MODULE, id="'dms_worker'"),
    insert("module_stores", MODULE_STORE, module_id="'dms_worker'"),
    insert("module_credentials", CREDENTIAL, client_id="'first'"),
    insert("module_credentials", CREDENTIAL, client_id="'expired'", created_at="now() - interval '2 days'",
           not_after="now() - interval '1 day'"),
    insert("signing_keys", SIGNING_KEY, kid="'k1'", state="'active'", retire_at="NULL"),
    insert("usage_deltas", DELTA, id=NOBODY),
    insert("usage_totals", TOTAL, metric="'storage_bytes'"),
]  # fmt: skip

VALID = [
    insert("tenants", TENANT),
    insert("tenants", TENANT, status="'active'", provision_step="'complete'", sealed_password=SEALED),
    insert("tenant_keys", KEY),
    insert("tenant_keys", KEY, state="'shredded'", sealed_kek="NULL", shredded_at="now()"),
    insert("tenant_keys", KEY, state="'shredded'", sealed_kek="NULL", shredded_at="now()", retired_at="now()"),
    insert("operators", OPERATOR),
    insert("feature_flags", FLAG),
    insert("modules", MODULE),
    insert("module_stores", MODULE_STORE),
    insert("module_stores", MODULE_STORE, store_id=NOBODY),
    insert("module_credentials", CREDENTIAL),
    insert("signing_keys", SIGNING_KEY),
    insert("usage_deltas", DELTA),
    insert("usage_totals", TOTAL),
]

SECOND_LIVE = insert("module_credentials", CREDENTIAL) + ";"

REFUSED = [
    ("tenants_slug_key", insert("tenants", TENANT, slug="'acme'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug="'Acme'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug="'a'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug="'1a'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug="'a-b'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug=r"E'ab\n'")),
    ("tenants_slug_form", insert("tenants", TENANT, slug="repeat('a', 50)")),
    *(("tenants_name_form", insert("tenants", TENANT, name=name)) for name in names_that_are_none()),
    ("tenants_status_known", insert("tenants", TENANT, status="'gone'", provision_step="'complete'",
                                    sealed_password=SEALED)),
    ("tenants_step_known", insert("tenants", TENANT, provision_step="'half'", sealed_password=SEALED)),
    ("tenants_provisioned", insert("tenants", TENANT, status="'active'")),
    ("tenants_provisioned", insert("tenants", TENANT, provision_step="'complete'", sealed_password=SEALED)),
    ("tenants_password_sealed", insert("tenants", TENANT, provision_step="'role_created'")),
    ("tenants_creation_key_form", insert("tenants", TENANT, creation_key="'two words'")),
    ("tenants_creation_key_form", insert("tenants", TENANT, creation_key="''")),
    ("tenants_creation_key_key", insert("tenants", TENANT, creation_key="'key-of-acme'")),
    ("tenants_schema_version_positive", insert("tenants", TENANT, schema_version="-1")),
    ("tenant_keys_pkey", insert("tenant_keys", KEY, version="1")),
    ("tenant_keys_tenant_fkey", insert("tenant_keys", KEY, tenant_id=NOBODY)),
    ("tenant_keys_version_positive", insert("tenant_keys", KEY, version="0")),
    ("tenant_keys_kek_sealed", insert("tenant_keys", KEY, sealed_kek=SHA)),
    ("tenant_keys_state_known", insert("tenant_keys", KEY, state="'lost'")),
    ("tenant_keys_retired", insert("tenant_keys", KEY, state="'retired'")),
    ("tenant_keys_retired", insert("tenant_keys", KEY, retired_at="now()")),
    ("tenant_keys_shredded", insert("tenant_keys", KEY, sealed_kek="NULL")),
    ("tenant_keys_shredded", insert("tenant_keys", KEY, shredded_at="now()")),
    ("tenant_keys_shredded", insert("tenant_keys", KEY, state="'shredded'", shredded_at="now()")),
    ("tenant_keys_shredded", insert("tenant_keys", KEY, state="'shredded'", sealed_kek="NULL")),
    ("tenant_keys_one_active", insert("tenant_keys", KEY, state="'active'")),
    ("operators_name_key", insert("operators", OPERATOR, name="'first'")),
    *(("operators_name_form", insert("operators", OPERATOR, name=name)) for name in names_that_are_none()),
    ("operators_token_key", insert("operators", OPERATOR, token_sha256="sha256('first')")),
    ("operators_token_is_sha256", insert("operators", OPERATOR, token_sha256="'in clear'")),
    ("feature_flags_pkey", insert("feature_flags", FLAG, key="'search'")),
    ("feature_flags_key_form", insert("feature_flags", FLAG, key="'a/b'")),
    ("feature_flags_key_form", insert("feature_flags", FLAG, key="''")),
    ("feature_flags_key_form", insert("feature_flags", FLAG, key="repeat('x', 129)")),
    ("feature_flags_description_length", insert("feature_flags", FLAG, description="repeat('x', 1001)")),
    ("flag_tenants_pkey", insert("flag_tenants", FLAG_TENANT)),
    ("flag_tenants_flag_fkey", insert("flag_tenants", FLAG_TENANT, flag_key="'unknown'")),
    ("flag_tenants_tenant_fkey", insert("flag_tenants", FLAG_TENANT, tenant_id=NOBODY)),
    ("modules_pkey", insert("modules", MODULE, id="'dms_ingest'")),
    ("modules_id_form", insert("modules", MODULE, id="'Thumbs'")),
    ("modules_id_form", insert("modules", MODULE, id="'th-umbs'")),
    ("modules_version_form", insert("modules", MODULE, version="'1 0'")),
    ("modules_base_url_form", insert("modules", MODULE, base_url="'ftp://host'")),
    ("modules_base_url_form", insert("modules", MODULE, base_url="'http://a b'")),
    ("modules_flags_form", insert("modules", MODULE, required_flags="'{a/b}'")),
    ("modules_flags_form", insert("modules", MODULE, required_flags="'{a,NULL}'")),
    ("modules_scopes_known", insert("modules", MODULE, scopes="'{root}'")),
    ("modules_scopes_known", insert("modules", MODULE, scopes="'{kek,NULL}'")),
    ("modules_announced", insert("modules", MODULE, announced_at="now()")),
    ("modules_no_prefix", insert("modules", MODULE, id="'dms'")),
    ("modules_no_prefix", insert("modules", MODULE, id="'dms_ingest_fast'")),
    ("module_stores_pkey", insert("module_stores", MODULE_STORE, module_id="'dms_worker'")),
    ("module_stores_module_id_fkey", insert("module_stores", MODULE_STORE, module_id="'nobody'")),
    ("module_stores_settings_object", insert("module_stores", MODULE_STORE, settings="'[]'")),
    ("module_credentials_module_fkey", insert("module_credentials", CREDENTIAL, module_id="'nobody'")),
    ("module_credentials_client_key", insert("module_credentials", CREDENTIAL, client_id="'first'")),
    ("module_credentials_client_form", insert("module_credentials", CREDENTIAL, client_id="'a:b'")),
    ("module_credentials_secret_is_sha256", insert("module_credentials", CREDENTIAL, secret_sha256="'clear'")),
    ("module_credentials_expiry_after_creation",
     insert("module_credentials", CREDENTIAL, not_after="now() - interval '1 day'")),
    ("module_credentials_two_live",
     SECOND_LIVE + insert("module_credentials", CREDENTIAL, client_id="'third'")),
    ("module_credentials_two_live",  # nor by making an expired one live again
     SECOND_LIVE + "UPDATE module_credentials SET not_after = NULL WHERE client_id = 'expired'"),
    ("signing_keys_pkey", insert("signing_keys", SIGNING_KEY, kid="'k1'")),
    ("signing_keys_kid_form", insert("signing_keys", SIGNING_KEY, kid="''")),
    ("signing_keys_public_is_ed25519", insert("signing_keys", SIGNING_KEY, public_key="'short'")),
    ("signing_keys_private_sealed", insert("signing_keys", SIGNING_KEY, sealed_private_key=SHA)),
    ("signing_keys_state_known", insert("signing_keys", SIGNING_KEY, state="'old'", retire_at="NULL")),
    ("signing_keys_retiring", insert("signing_keys", SIGNING_KEY, retire_at="NULL")),
    ("signing_keys_one_active", insert("signing_keys", SIGNING_KEY, state="'active'", retire_at="NULL")),
    ("usage_deltas_pkey", insert("usage_deltas", DELTA, id=NOBODY)),
    ("usage_deltas_tenant_fkey", insert("usage_deltas", DELTA, tenant_id=NOBODY)),
    ("usage_deltas_module_fkey", insert("usage_deltas", DELTA, module_id="'nobody'")),
    ("usage_deltas_metric_form", insert("usage_deltas", DELTA, metric="'Storage Bytes'")),
    ("usage_totals_pkey", insert("usage_totals", TOTAL, metric="'storage_bytes'")),
    ("usage_totals_tenant_fkey", insert("usage_totals", TOTAL, tenant_id=NOBODY)),
    ("usage_totals_metric_form", insert("usage_totals", TOTAL, metric="''")),
    ("tenant_keys_tenant_fkey", "DELETE FROM flag_tenants; DELETE FROM tenants WHERE slug = 'acme'"),
]  # fmt: skip


@pytest.fixture
async def conn(registry_conn: Connection) -> Connection:
    """A registry with one row in each table."""
    await registry_conn.execute(";".join(PRESENT))
    return registry_conn


@pytest.mark.parametrize(("constraint", "statement"), REFUSED)
async def test_a_row_that_breaks_a_rule_is_refused(conn: Connection, constraint: str, statement: str) -> None:
    assert await refused_by(conn, statement) == constraint


@pytest.mark.parametrize("statement", VALID)
async def test_a_row_that_keeps_the_rules_is_taken(conn: Connection, statement: str) -> None:
    assert await refused_by(conn, statement) is None


async def test_each_rule_of_the_registry_is_tried_above(registry_conn: Connection) -> None:
    assert await rules(registry_conn) - {constraint for constraint, _ in REFUSED} == set()
