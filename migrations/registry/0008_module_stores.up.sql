-- What each module says of the object store that it sees, so that two that see different ones find out. It says so every
-- few seconds while it runs: an old row says nothing.
CREATE TABLE module_stores (
    module_id text PRIMARY KEY REFERENCES modules ON DELETE CASCADE,
    store_id uuid, -- lies in the store itself; NULL where the module finds none
    settings jsonb NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT module_stores_settings_object CHECK (jsonb_typeof(settings) = 'object')
);
COMMENT ON TABLE module_stores IS 'The object store that each running module sees, and fingerprints of its settings.';
