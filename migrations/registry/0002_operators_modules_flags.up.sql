-- Who may call core-api (operators, modules) and the feature flags that activate modules for tenants.

CREATE TABLE operators (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    name         text NOT NULL,
    token_sha256 bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    disabled_at  timestamptz,
    last_used_at timestamptz,

    CONSTRAINT operators_name_key UNIQUE (name),
    CONSTRAINT operators_name_form CHECK (is_name(name)),
    CONSTRAINT operators_token_key UNIQUE (token_sha256),
    CONSTRAINT operators_token_is_sha256 CHECK (octet_length(token_sha256) = 32)
);

CREATE TABLE feature_flags (
    key             text NOT NULL,
    enabled_for_all boolean NOT NULL DEFAULT false,
    description     text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT feature_flags_pkey PRIMARY KEY (key),
    CONSTRAINT feature_flags_key_form CHECK (key ~ '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT feature_flags_description_length CHECK (char_length(description) <= 1000)
);

CREATE TABLE flag_tenants (
    flag_key  text NOT NULL,
    tenant_id uuid NOT NULL,

    CONSTRAINT flag_tenants_pkey PRIMARY KEY (flag_key, tenant_id),
    CONSTRAINT flag_tenants_flag_fkey FOREIGN KEY (flag_key) REFERENCES feature_flags (key) ON DELETE CASCADE,
    CONSTRAINT flag_tenants_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id)
);
COMMENT ON TABLE flag_tenants IS 'The tenants for which a flag is on although it is not on for all.';

CREATE INDEX flag_tenants_by_tenant ON flag_tenants (tenant_id);

CREATE FUNCTION are_flag_keys(text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN array_position($1, NULL) IS NULL
       AND NOT EXISTS (SELECT FROM unnest($1) AS key WHERE key !~ '^[A-Za-z0-9._-]{1,128}$');

CREATE TABLE modules (
    id             text NOT NULL,
    version        text NOT NULL,
    base_url       text,
    required_flags text[] NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL DEFAULT now(),
    announced_at   timestamptz,

    CONSTRAINT modules_pkey PRIMARY KEY (id),
    CONSTRAINT modules_id_form CHECK (id ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT modules_version_form CHECK (version ~ '^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$'),
    CONSTRAINT modules_base_url_form CHECK (base_url ~ '^https?://\S+$' AND char_length(base_url) <= 500),
    CONSTRAINT modules_flags_form CHECK (are_flag_keys(required_flags)),
    CONSTRAINT modules_announced CHECK (announced_at IS NULL OR base_url IS NOT NULL)
);
COMMENT ON COLUMN modules.required_flags IS
    'The module is active for a tenant when all of them are on; one that does not exist is off.';

-- Metrics are re-exported as nexarch_module_<module>_<name>: with modules `a` and `a_b`, the names of
-- `a`'s metric `b_c` and of `a_b`'s metric `c` would be the same.
CREATE FUNCTION refuse_module_prefix() RETURNS trigger
    LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('nexarch modules', 0));
    SELECT id INTO other FROM modules
     WHERE id <> NEW.id AND (starts_with(id, NEW.id || '_') OR starts_with(NEW.id, id || '_'))
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'module % and module % would share metric names', NEW.id, other
            USING ERRCODE = 'check_violation', CONSTRAINT = 'modules_no_prefix', TABLE = 'modules';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER modules_no_prefix BEFORE INSERT OR UPDATE OF id ON modules
    FOR EACH ROW EXECUTE FUNCTION refuse_module_prefix();

CREATE TABLE module_credentials (
    id            uuid PRIMARY KEY DEFAULT uuidv7(),
    module_id     text NOT NULL,
    client_id     text NOT NULL,
    secret_sha256 bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    not_after     timestamptz,
    revoked_at    timestamptz,

    CONSTRAINT module_credentials_module_fkey FOREIGN KEY (module_id) REFERENCES modules (id),
    CONSTRAINT module_credentials_client_key UNIQUE (client_id),
    CONSTRAINT module_credentials_client_form CHECK (client_id ~ '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT module_credentials_secret_is_sha256 CHECK (octet_length(secret_sha256) = 32),
    CONSTRAINT module_credentials_expiry_after_creation CHECK (not_after > created_at)
);
COMMENT ON TABLE module_credentials IS
    'A module may hold two live credentials at once, so that one can be rotated without a gap.';

CREATE INDEX module_credentials_by_module ON module_credentials (module_id);

CREATE FUNCTION refuse_third_credential() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM modules WHERE id = NEW.module_id FOR NO KEY UPDATE;  -- two provisioners take turns
    IF NEW.revoked_at IS NULL AND 2 <= (
        SELECT count(*) FROM module_credentials
         WHERE module_id = NEW.module_id AND id <> NEW.id AND revoked_at IS NULL
           AND (not_after IS NULL OR not_after > now())
    ) THEN
        RAISE EXCEPTION 'module % has two live credentials; revoke one first', NEW.module_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'module_credentials_two_live',
                  TABLE = 'module_credentials';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER module_credentials_two_live
    BEFORE INSERT OR UPDATE OF module_id, not_after, revoked_at ON module_credentials
    FOR EACH ROW EXECUTE FUNCTION refuse_third_credential();
