-- Who did what to which document: rows that the tenant's role can add and read, and neither change nor remove.

CREATE TABLE audit_events (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    action      text NOT NULL,
    user_id     uuid,
    document_id uuid,
    revision_id uuid,
    link_key_id text,
    request_id  text,
    address     inet,
    details     jsonb NOT NULL DEFAULT '{}',

    CONSTRAINT audit_events_action_form CHECK (action ~ '^[a-z]{1,30}\.[a-z]{1,30}$'),
    CONSTRAINT audit_events_link_key_form CHECK (char_length(link_key_id) <= 64),
    CONSTRAINT audit_events_request_form CHECK (char_length(request_id) <= 64),
    CONSTRAINT audit_events_details_form CHECK (jsonb_typeof(details) = 'object' AND pg_column_size(details) <= 8192)
);
COMMENT ON TABLE audit_events IS 'Append-only. A row outlives its document; no row holds a name, a text or a secret.';
COMMENT ON COLUMN audit_events.id IS 'A UUIDv7: its time is that of the event.';
COMMENT ON COLUMN audit_events.user_id IS 'NULL: the platform itself, or who followed a link.';
COMMENT ON COLUMN audit_events.link_key_id IS 'Which key signed the link that was made or followed.';

CREATE INDEX audit_events_by_document ON audit_events (document_id, id) WHERE document_id IS NOT NULL;
CREATE INDEX audit_events_by_user ON audit_events (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_events_by_action ON audit_events (action, id);

CREATE FUNCTION prune_audit_events(older_than interval, at_most integer) RETURNS integer
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path = public, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF older_than < interval '30 days' THEN
        RAISE EXCEPTION 'audit events are kept for at least 30 days'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_events_kept';
    END IF;
    DELETE FROM audit_events
     WHERE id IN (SELECT id FROM audit_events WHERE id < uuidv7(-older_than) ORDER BY id LIMIT at_most);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
COMMENT ON FUNCTION prune_audit_events(interval, integer) IS
    'The one way to remove events: old ones, some at a time; returns how many went.';
REVOKE EXECUTE ON FUNCTION prune_audit_events(interval, integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION grant_tenant_role(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO %I', role);
    EXECUTE format('REVOKE ALL ON public.users, public.schema_migrations, public.kek_versions FROM %I', role);
    EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON public.audit_events FROM %I', role);
    EXECUTE format(
        'GRANT SELECT (id, email, display_name, role, created_at, disabled_at) ON public.users TO %I', role
    );
    EXECUTE format('GRANT SELECT ON public.schema_migrations, public.kek_versions TO %I', role);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION public.grant_tenant_role(name) FROM %I', role);
END $$;

COMMENT ON COLUMN tenant_settings.trash_days IS
    'After so many days in the trash a document is removed for good; 0: only when an admin says so.';
