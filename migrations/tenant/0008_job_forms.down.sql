ALTER TABLE processing_jobs
    ALTER COLUMN job_type TYPE text,
    ALTER COLUMN payload TYPE jsonb,
    ALTER COLUMN idempotency_key TYPE text,
    ALTER COLUMN traceparent TYPE text,
    ADD CONSTRAINT processing_jobs_job_type_check CHECK (job_type ~ '^[a-z][a-z0-9_]{0,62}$'),
    ADD CONSTRAINT processing_jobs_payload_check CHECK (jsonb_typeof(payload) = 'object'),
    ADD CONSTRAINT processing_jobs_idempotency_key_check CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    ADD CONSTRAINT processing_jobs_traceparent_check CHECK (length(traceparent) <= 255);
DROP DOMAIN job_traceparent, job_key, job_payload, job_type;
