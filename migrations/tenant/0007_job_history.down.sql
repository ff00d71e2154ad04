DROP TABLE job_schedules;
DROP TABLE job_attempts;
ALTER TABLE processing_jobs
    DROP COLUMN cancel_requested_at,
    DROP COLUMN queued_key;
