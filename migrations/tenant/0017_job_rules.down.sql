ALTER TABLE processing_jobs
    DROP CONSTRAINT processing_jobs_finished,
    DROP CONSTRAINT processing_jobs_one_key,
    ALTER COLUMN status TYPE text,
    ALTER COLUMN attempts TYPE integer,
    ALTER COLUMN max_attempts TYPE integer,
    ALTER COLUMN progress TYPE smallint,
    ALTER COLUMN queued_key TYPE text,
    ADD CONSTRAINT processing_jobs_status_check
        CHECK (status IN ('pending', 'processing', 'succeeded', 'failed', 'dead_letter')),
    ADD CONSTRAINT processing_jobs_attempts_check CHECK (attempts >= 0),
    ADD CONSTRAINT processing_jobs_max_attempts_check CHECK (max_attempts >= 1),
    ADD CONSTRAINT processing_jobs_progress_check CHECK (progress BETWEEN 0 AND 100),
    ADD CONSTRAINT processing_jobs_finished CHECK (
        (status IN ('succeeded', 'failed', 'dead_letter')) = (finished_at IS NOT NULL)
    ),
    ADD CONSTRAINT processing_jobs_one_key CHECK (
        queued_key IS NULL OR (idempotency_key IS NULL AND length(queued_key) BETWEEN 1 AND 255)
    );
DROP DOMAIN job_progress, job_attempts_limit, job_attempts_count, job_status;
