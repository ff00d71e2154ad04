-- The rules of a job that read its status stand in an index. Postgres reads and plans a table's CHECKs anew for each
-- statement, which took a sixth of a lone insert; it keeps what an index is made of. This one has no entry ever: only
-- a row that breaks a rule belongs into it, and on its way there it is refused.
CREATE FUNCTION refuse_job(status text, locked_by text, finished_at timestamptz) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    rule CONSTANT text := CASE
        WHEN (status = 'processing') <> (locked_by IS NOT NULL) THEN 'processing_jobs_locked'
        WHEN (status IN ('pending', 'processing')) <> (finished_at IS NULL) THEN 'processing_jobs_finished'
        ELSE 'processing_jobs_one_key'
    END;
BEGIN
    RAISE check_violation USING
        MESSAGE = format('new row for relation "processing_jobs" violates rule %I', rule),
        SCHEMA = 'public', TABLE = 'processing_jobs', CONSTRAINT = rule;
END
$$;
COMMENT ON FUNCTION refuse_job(text, text, timestamptz) IS
    'Raises check_violation with the name of the rule that a row of processing_jobs breaks.';

CREATE INDEX processing_jobs_guard ON processing_jobs (refuse_job(status, locked_by, finished_at))
    WHERE (status = 'processing') <> (locked_by IS NOT NULL)
        OR (status IN ('pending', 'processing')) <> (finished_at IS NULL)
        OR (idempotency_key IS NOT NULL AND queued_key IS NOT NULL);

-- Not in the index, where every heartbeat would then write all indexes: locked_at goes with locked_by.
ALTER TABLE processing_jobs
    DROP CONSTRAINT processing_jobs_locked,
    DROP CONSTRAINT processing_jobs_finished,
    DROP CONSTRAINT processing_jobs_one_key,
    ADD CONSTRAINT processing_jobs_locked CHECK ((locked_at IS NULL) = (locked_by IS NULL));

-- By id, the order in which jobs are claimed: an entry then goes to the end, and not among all those of its type.
DROP INDEX processing_jobs_running;
CREATE INDEX processing_jobs_running ON processing_jobs (id)
    WHERE status = 'processing';
