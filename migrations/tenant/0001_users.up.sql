-- Users of this tenant, and what the tenant's own role may do.
-- All tables belong to nexarch_core; services come in as the tenant's role.

CREATE EXTENSION unaccent WITH SCHEMA public;

CREATE FUNCTION is_name(text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN char_length($1) BETWEEN 1 AND 255
       AND $1 IS NFC NORMALIZED
       AND $1 ~ '\S'
       AND $1 !~ '[\u0001-\u001f\u007f-\u009f/]';
COMMENT ON FUNCTION is_name(text) IS
    'What a person may call something: 1 to 255 characters in NFC, not only spaces, no control character, no slash.';

CREATE TABLE users (
    id            uuid PRIMARY KEY DEFAULT uuidv7(),
    email         text NOT NULL,
    display_name  text NOT NULL,
    role          text NOT NULL,
    password_hash text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    disabled_at   timestamptz,

    CONSTRAINT users_email_key UNIQUE (email),
    CONSTRAINT users_email_form CHECK (email ~ '^[^@\s]+@[^@\s]+$' AND char_length(email) <= 254),
    CONSTRAINT users_email_lower CHECK (email = lower(email) AND email IS NFC NORMALIZED),
    CONSTRAINT users_display_name_form CHECK (is_name(display_name)),
    CONSTRAINT users_role_known CHECK (role IN ('viewer', 'editor', 'admin')),
    CONSTRAINT users_password_is_argon2id CHECK (password_hash LIKE '$argon2id$%')
);
COMMENT ON COLUMN users.email IS 'In lower case, so that it is unique whatever the case.';

CREATE FUNCTION grant_tenant_role(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO %I', role);
    EXECUTE format('REVOKE ALL ON public.users, public.schema_migrations FROM %I', role);
    EXECUTE format(
        'GRANT SELECT (id, email, display_name, role, created_at, disabled_at) ON public.users TO %I', role
    );
    EXECUTE format('GRANT SELECT ON public.schema_migrations TO %I', role);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION public.grant_tenant_role(name) FROM %I', role);
END $$;
COMMENT ON FUNCTION grant_tenant_role(name) IS
    'What the tenant''s role may do; called by the owner after every migration, as often as wanted.';
REVOKE EXECUTE ON FUNCTION grant_tenant_role(name) FROM PUBLIC;
