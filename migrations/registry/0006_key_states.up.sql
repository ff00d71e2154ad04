-- A tenant's key can be shredded: its row stays, so that nothing makes the version anew, and holds no key any more.
ALTER TABLE tenant_keys
    ALTER COLUMN sealed_kek DROP NOT NULL,
    ADD COLUMN shredded_at timestamptz,
    DROP CONSTRAINT tenant_keys_state_known,
    DROP CONSTRAINT tenant_keys_retired,
    ADD CONSTRAINT tenant_keys_state_known CHECK (state IN ('active', 'retiring', 'retired', 'shredded')),
    -- A shredded version may have been retired before.
    ADD CONSTRAINT tenant_keys_retired CHECK (state = 'shredded' OR (state = 'retired') = (retired_at IS NOT NULL)),
    ADD CONSTRAINT tenant_keys_shredded CHECK (
        (state = 'shredded') = (shredded_at IS NOT NULL) AND (state = 'shredded') = (sealed_kek IS NULL)
    );
COMMENT ON TABLE tenant_keys IS
    'Key encryption keys, sealed under the master key: active wraps and unwraps, retiring only unwraps, retired is '
    'unused and kept for backups, shredded is destroyed.';
