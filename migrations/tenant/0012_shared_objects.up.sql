-- Several revisions may refer to one stored object: a copy costs no bytes. The object goes with the last of them.

CREATE TABLE stored_objects (
    storage_key text PRIMARY KEY,
    size_bytes  bigint NOT NULL,

    CONSTRAINT stored_objects_key_form CHECK (
        storage_key ~ '^documents/[0-9a-f-]{36}/revisions/[0-9a-f-]{36}$'
    ),
    CONSTRAINT stored_objects_size_not_negative CHECK (size_bytes >= 0)
);
COMMENT ON TABLE stored_objects IS
    'What lies in the object store and is in use. The key holds the document and the revision that it was sealed for.';
COMMENT ON COLUMN stored_objects.size_bytes IS 'Of the plaintext; their sum is what the tenant stores.';

INSERT INTO stored_objects (storage_key, size_bytes) SELECT storage_key, size_bytes FROM file_revisions;

CREATE FUNCTION bring_own_object() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.storage_key = format('documents/%s/revisions/%s', NEW.document_id, NEW.id) THEN
        INSERT INTO stored_objects (storage_key, size_bytes) VALUES (NEW.storage_key, NEW.size_bytes);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION bring_own_object() IS
    'A revision with a file of its own brings the row of its object; a copy finds the row there or is refused.';
CREATE TRIGGER file_revisions_own_object BEFORE INSERT ON file_revisions
    FOR EACH ROW EXECUTE FUNCTION bring_own_object();

ALTER TABLE file_revisions
    DROP CONSTRAINT file_revisions_storage_key_key,
    ADD CONSTRAINT file_revisions_object_fkey FOREIGN KEY (storage_key) REFERENCES stored_objects (storage_key);
CREATE INDEX file_revisions_by_object ON file_revisions (storage_key);
COMMENT ON COLUMN file_revisions.wrapped_dek IS
    'The key of the object, wrapped for this revision, also where another revision has the same object.';

CREATE TABLE doomed_objects (
    storage_key text PRIMARY KEY,
    doomed_at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE doomed_objects IS
    'Objects that no row refers to any more, until they are deleted from the store: written in the transaction that '
    'removes the last reference, so that a crash leaves none behind.';
