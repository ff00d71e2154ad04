-- What was shredded stays so: a tenant without a row has no key.
DELETE FROM tenant_keys WHERE state = 'shredded';
ALTER TABLE tenant_keys
    DROP CONSTRAINT tenant_keys_shredded,
    DROP CONSTRAINT tenant_keys_retired,
    DROP CONSTRAINT tenant_keys_state_known,
    ADD CONSTRAINT tenant_keys_state_known CHECK (state IN ('active', 'retiring', 'retired')),
    ADD CONSTRAINT tenant_keys_retired CHECK ((state = 'retired') = (retired_at IS NOT NULL)),
    DROP COLUMN shredded_at,
    ALTER COLUMN sealed_kek SET NOT NULL;
COMMENT ON TABLE tenant_keys IS
    'Key encryption keys, sealed under the master key: active wraps and unwraps, retiring only unwraps, retired is unused.';
