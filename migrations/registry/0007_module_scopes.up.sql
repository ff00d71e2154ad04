-- What a module may ask core-api for, beside what every module may.
CREATE FUNCTION are_scopes(text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN array_position($1, NULL) IS NULL AND $1 <@ ARRAY['database', 'kek', 'usage'];

ALTER TABLE modules
    ADD COLUMN scopes text[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT modules_scopes_known CHECK (are_scopes(scopes));
COMMENT ON COLUMN modules.scopes IS
    'database: the address of tenants'' databases; kek: tenants'' keys; usage: reports of tenants'' usage.';

-- Until now every module could ask for all. The alerter needs none of it, the worker reports no usage.
UPDATE modules SET scopes = '{database,kek,usage}' WHERE id NOT IN ('alerter', 'dms_worker');
UPDATE modules SET scopes = '{database,kek}' WHERE id = 'dms_worker';
