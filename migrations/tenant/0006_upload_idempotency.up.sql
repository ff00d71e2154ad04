-- A client that got no answer may ask for its upload session again, with the same Idempotency-Key.
ALTER TABLE upload_sessions
    ADD COLUMN idempotency_key text,
    ADD CONSTRAINT upload_sessions_idempotency_key_form CHECK (char_length(idempotency_key) BETWEEN 1 AND 255),
    ADD CONSTRAINT upload_sessions_idempotency_key_key UNIQUE (user_id, idempotency_key);
