DROP INDEX processing_jobs_running;
CREATE INDEX processing_jobs_running ON processing_jobs (job_type)
    WHERE status = 'processing';

ALTER TABLE processing_jobs
    DROP CONSTRAINT processing_jobs_locked,
    ADD CONSTRAINT processing_jobs_locked CHECK (
        (status = 'processing') = (locked_at IS NOT NULL AND locked_by IS NOT NULL)
    ),
    ADD CONSTRAINT processing_jobs_finished CHECK ((status IN ('pending', 'processing')) = (finished_at IS NULL)),
    ADD CONSTRAINT processing_jobs_one_key CHECK (idempotency_key IS NULL OR queued_key IS NULL);

DROP INDEX processing_jobs_guard;
DROP FUNCTION refuse_job(text, text, timestamptz);
