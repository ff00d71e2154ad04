-- Parts, and files whose length is not known, mean nothing to the release before.
DELETE FROM upload_sessions WHERE concat_kind = 'partial' OR length_deferred;
DROP INDEX upload_sessions_by_concat_into;
ALTER TABLE upload_sessions
    DROP COLUMN length_deferred,
    DROP COLUMN tus_metadata,
    DROP COLUMN concat_kind,
    DROP COLUMN concat_parts,
    DROP COLUMN concat_into;
COMMENT ON COLUMN upload_sessions.size_bytes IS NULL;
