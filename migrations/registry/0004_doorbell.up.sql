-- The one function that the event-bus role may call: a producer arms a tenant before its first commit in a minute,
-- so that the sweep finds the job if the producer dies between the commit and the ring.
-- Two producers within 30 seconds write once; a sweep looks ten minutes back, so the difference does not matter.
CREATE FUNCTION arm_tenant(slug text) RETURNS void
    LANGUAGE sql
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    BEGIN ATOMIC
        UPDATE public.tenants
        SET active_at = now()
        WHERE tenants.slug = arm_tenant.slug
            AND tenants.active_at < now() - interval '30 seconds';
    END;

REVOKE EXECUTE ON FUNCTION arm_tenant(text) FROM PUBLIC;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'nexarch_bus') THEN
        GRANT EXECUTE ON FUNCTION arm_tenant(text) TO nexarch_bus;
    END IF;
END
$$;
