-- Staged bytes are sealed under a random key of their session, wrapped by the tenant's KEK. Bytes that were staged before
-- lie in clear: their uploads end here, and the sweep of the staging folder removes the files.
ALTER TABLE upload_sessions
    ADD COLUMN wrapped_key bytea,
    ADD COLUMN kek_version integer,
    ADD CONSTRAINT upload_sessions_wrapped_key_length CHECK (octet_length(wrapped_key) = 60),
    ADD CONSTRAINT upload_sessions_kek_version_positive CHECK (kek_version > 0),
    ADD CONSTRAINT upload_sessions_key_has_version CHECK ((wrapped_key IS NULL) = (kek_version IS NULL));
COMMENT ON COLUMN upload_sessions.wrapped_key IS
    'Key of the staged bytes under the KEK of kek_version; NULL before the first byte and when the upload is over.';

UPDATE upload_sessions SET state = 'aborted', idempotency_key = NULL, updated_at = now() WHERE state = 'open';
