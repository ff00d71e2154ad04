-- Tenants and the keys that seal their documents.

CREATE FUNCTION is_name(text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN char_length($1) BETWEEN 1 AND 255
       AND $1 IS NFC NORMALIZED
       AND $1 ~ '\S'
       AND $1 !~ '[\u0001-\u001f\u007f-\u009f/]';
COMMENT ON FUNCTION is_name(text) IS
    'What a person may call something: 1 to 255 characters in NFC, not only spaces, no control character, no slash.';

CREATE TABLE tenants (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    slug            text NOT NULL,
    name            text NOT NULL,
    status          text NOT NULL DEFAULT 'provisioning',
    provision_step  text NOT NULL DEFAULT 'requested',
    database_name   text NOT NULL GENERATED ALWAYS AS ('tenant_' || slug) STORED,
    role_name       text NOT NULL GENERATED ALWAYS AS ('tenant_' || slug) STORED,
    sealed_password bytea,
    schema_version  integer NOT NULL DEFAULT 0,
    active_at       timestamptz NOT NULL DEFAULT now(),
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT tenants_slug_key UNIQUE (slug),
    CONSTRAINT tenants_slug_form CHECK (slug ~ '^[a-z][a-z0-9_]{1,48}$'),
    CONSTRAINT tenants_name_form CHECK (is_name(name)),
    CONSTRAINT tenants_status_known CHECK (status IN ('provisioning', 'active', 'suspended')),
    CONSTRAINT tenants_step_known CHECK (
        provision_step IN ('requested', 'role_created', 'database_created', 'migrated', 'key_created', 'complete')
    ),
    CONSTRAINT tenants_provisioned CHECK ((status = 'provisioning') = (provision_step <> 'complete')),
    CONSTRAINT tenants_password_sealed CHECK (
        provision_step = 'requested' OR sealed_password IS NOT NULL AND octet_length(sealed_password) > 0
    ),
    CONSTRAINT tenants_schema_version_positive CHECK (schema_version >= 0)
);
COMMENT ON COLUMN tenants.provision_step IS
    'The last step that is done; each step may be done again, so a retry goes on from here.';
COMMENT ON COLUMN tenants.sealed_password IS 'The password of role_name, sealed under the master key.';
COMMENT ON COLUMN tenants.active_at IS
    'A producer sets it before its first commit in any minute; workers sweep active tenants more often.';

-- The worker's sweep: who was active lately.
CREATE INDEX tenants_active_at ON tenants (active_at);

CREATE TABLE tenant_keys (
    tenant_id  uuid NOT NULL,
    version    integer NOT NULL,
    sealed_kek bytea NOT NULL,
    state      text NOT NULL DEFAULT 'active',
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,

    CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id, version),
    CONSTRAINT tenant_keys_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT tenant_keys_version_positive CHECK (version > 0),
    CONSTRAINT tenant_keys_kek_sealed CHECK (octet_length(sealed_kek) > 32),
    CONSTRAINT tenant_keys_state_known CHECK (state IN ('active', 'retiring', 'retired')),
    CONSTRAINT tenant_keys_retired CHECK ((state = 'retired') = (retired_at IS NOT NULL))
);
COMMENT ON TABLE tenant_keys IS
    'Key encryption keys, sealed under the master key: active wraps and unwraps, retiring only unwraps, retired is unused.';

CREATE UNIQUE INDEX tenant_keys_one_active ON tenant_keys (tenant_id) WHERE state = 'active';
