-- The keys that sign user tokens, and how much each tenant stores.

CREATE TABLE signing_keys (
    kid                text NOT NULL,
    public_key         bytea NOT NULL,
    sealed_private_key bytea NOT NULL,
    state              text NOT NULL DEFAULT 'active',
    created_at         timestamptz NOT NULL DEFAULT now(),
    retire_at          timestamptz,

    CONSTRAINT signing_keys_pkey PRIMARY KEY (kid),
    CONSTRAINT signing_keys_kid_form CHECK (kid ~ '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT signing_keys_public_is_ed25519 CHECK (octet_length(public_key) = 32),
    CONSTRAINT signing_keys_private_sealed CHECK (octet_length(sealed_private_key) > 32),
    CONSTRAINT signing_keys_state_known CHECK (state IN ('active', 'retiring')),
    CONSTRAINT signing_keys_retiring CHECK ((state = 'retiring') = (retire_at IS NOT NULL))
);
COMMENT ON TABLE signing_keys IS
    'Ed25519: the active key signs; a retiring one is published until retire_at, so that its tokens live out.';

CREATE UNIQUE INDEX signing_keys_one_active ON signing_keys ((true)) WHERE state = 'active';

CREATE TABLE usage_deltas (
    id         uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    metric     text NOT NULL,
    delta      bigint NOT NULL,
    module_id  text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT usage_deltas_pkey PRIMARY KEY (id),
    CONSTRAINT usage_deltas_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT usage_deltas_module_fkey FOREIGN KEY (module_id) REFERENCES modules (id),
    CONSTRAINT usage_deltas_metric_form CHECK (metric ~ '^[a-z][a-z0-9_]{0,62}$')
);
COMMENT ON TABLE usage_deltas IS
    'Each change of usage, applied once: the id is the one of the row in the tenant''s usage_outbox.';

CREATE INDEX usage_deltas_by_tenant ON usage_deltas (tenant_id, metric, created_at);

CREATE TABLE usage_totals (
    tenant_id  uuid NOT NULL,
    metric     text NOT NULL,
    value      bigint NOT NULL,  -- may be below zero for a moment, where a delete is told before its put
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT usage_totals_pkey PRIMARY KEY (tenant_id, metric),
    CONSTRAINT usage_totals_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id),
    CONSTRAINT usage_totals_metric_form CHECK (metric ~ '^[a-z][a-z0-9_]{0,62}$')
);
