-- The rules of a job's columns become domains too, and those of several columns say the same in fewer words: for each
-- statement Postgres reads the text of a table's rules anew, which took more than half of a lone insert.
CREATE DOMAIN job_status AS text
    CONSTRAINT job_status_known CHECK (VALUE IN ('pending', 'processing', 'succeeded', 'failed', 'dead_letter'));
CREATE DOMAIN job_attempts_count AS integer
    CONSTRAINT job_attempts_not_negative CHECK (VALUE >= 0);
CREATE DOMAIN job_attempts_limit AS integer
    CONSTRAINT job_attempts_at_least_one CHECK (VALUE >= 1);
CREATE DOMAIN job_progress AS smallint
    CONSTRAINT job_progress_percent CHECK (VALUE BETWEEN 0 AND 100);

ALTER TABLE processing_jobs
    DROP CONSTRAINT processing_jobs_status_check,
    DROP CONSTRAINT processing_jobs_attempts_check,
    DROP CONSTRAINT processing_jobs_max_attempts_check,
    DROP CONSTRAINT processing_jobs_progress_check,
    DROP CONSTRAINT processing_jobs_finished,
    DROP CONSTRAINT processing_jobs_one_key,
    ALTER COLUMN status TYPE job_status,
    ALTER COLUMN attempts TYPE job_attempts_count,
    ALTER COLUMN max_attempts TYPE job_attempts_limit,
    ALTER COLUMN progress TYPE job_progress,
    ALTER COLUMN queued_key TYPE job_key,
    ADD CONSTRAINT processing_jobs_finished CHECK ((status IN ('pending', 'processing')) = (finished_at IS NULL)),
    ADD CONSTRAINT processing_jobs_one_key CHECK (idempotency_key IS NULL OR queued_key IS NULL);
