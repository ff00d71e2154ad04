COMMENT ON COLUMN tenant_settings.trash_days IS 'After so many days in the trash a document is removed for good.';

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

DROP FUNCTION prune_audit_events(interval, integer);
DROP TABLE audit_events;
