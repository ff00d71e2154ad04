-- What became of each attempt that failed, keys that are unique only while a job waits, cancelling, schedules.
ALTER TABLE processing_jobs
    ADD COLUMN queued_key          text,          -- of the jobs that wait, one at most has it
    ADD COLUMN cancel_requested_at timestamptz,   -- while it runs: its worker is to end it
    ADD CONSTRAINT processing_jobs_one_key CHECK (
        queued_key IS NULL OR (idempotency_key IS NULL AND length(queued_key) BETWEEN 1 AND 255)
    );

-- The claim takes the row out of the index, so the next one with this key is a job of its own.
CREATE UNIQUE INDEX processing_jobs_queued_key ON processing_jobs (queued_key)
    WHERE queued_key IS NOT NULL AND status = 'pending';

CREATE TABLE job_attempts (
    job_id     uuid        NOT NULL REFERENCES processing_jobs ON DELETE CASCADE,
    lease      bigint      NOT NULL,   -- of the claim: a requeue counts the attempts anew, leases go on
    attempt    integer     NOT NULL,
    worker     text        NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    error      jsonb       NOT NULL,   -- {code, detail, traceback}
    PRIMARY KEY (job_id, lease)
);
COMMENT ON TABLE job_attempts IS
    'The attempts that failed or whose worker was lost; one that succeeds costs no row. Pruned with their job.';

CREATE TABLE job_schedules (
    job_type text        PRIMARY KEY,
    slot     timestamptz NOT NULL      -- begin of the last period for which a job was made
);
COMMENT ON TABLE job_schedules IS 'Jobs that come round by themselves: one row for each kind, one job for each period.';
