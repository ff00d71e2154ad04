-- The versions of the tenant's key that rows may be wrapped under. core-api adds a version before anybody can get its
-- key, and deletes one to retire it: the foreign keys refuse that as long as a row uses it, and afterwards refuse a
-- row that was wrapped under it before and comes late.
CREATE TABLE kek_versions (
    version    integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT kek_versions_pkey PRIMARY KEY (version),
    CONSTRAINT kek_versions_version_positive CHECK (version > 0)
);
COMMENT ON TABLE kek_versions IS 'Versions of the tenant''s key that may be in use; written by core-api only.';

INSERT INTO kek_versions (version)
SELECT 1
UNION SELECT kek_version FROM file_revisions
UNION SELECT kek_version FROM upload_sessions WHERE kek_version IS NOT NULL;

ALTER TABLE file_revisions
    ADD CONSTRAINT file_revisions_kek_version_fkey FOREIGN KEY (kek_version) REFERENCES kek_versions (version);
ALTER TABLE upload_sessions
    ADD CONSTRAINT upload_sessions_kek_version_fkey FOREIGN KEY (kek_version) REFERENCES kek_versions (version);
CREATE INDEX upload_sessions_by_kek_version ON upload_sessions (kek_version) WHERE kek_version IS NOT NULL;

CREATE OR REPLACE FUNCTION grant_tenant_role(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO %I', role);
    EXECUTE format('REVOKE ALL ON public.users, public.schema_migrations, public.kek_versions FROM %I', role);
    EXECUTE format(
        'GRANT SELECT (id, email, display_name, role, created_at, disabled_at) ON public.users TO %I', role
    );
    EXECUTE format('GRANT SELECT ON public.schema_migrations, public.kek_versions TO %I', role);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION public.grant_tenant_role(name) FROM %I', role);
END $$;
