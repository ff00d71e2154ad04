-- Without their keys the staged bytes mean nothing.
UPDATE upload_sessions SET state = 'aborted', idempotency_key = NULL, updated_at = now() WHERE state = 'open';

ALTER TABLE upload_sessions DROP COLUMN wrapped_key, DROP COLUMN kek_version;
