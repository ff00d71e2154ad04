-- Refused by the UNIQUE constraint while copies exist: each revision needs an object of its own again.
DROP TABLE doomed_objects;
DROP TRIGGER file_revisions_own_object ON file_revisions;
DROP FUNCTION bring_own_object();
COMMENT ON COLUMN file_revisions.wrapped_dek IS NULL;
DROP INDEX file_revisions_by_object;
ALTER TABLE file_revisions
    DROP CONSTRAINT file_revisions_object_fkey,
    ADD CONSTRAINT file_revisions_storage_key_key UNIQUE (storage_key);
DROP TABLE stored_objects;
