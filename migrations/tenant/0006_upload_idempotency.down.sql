ALTER TABLE upload_sessions DROP COLUMN idempotency_key;
