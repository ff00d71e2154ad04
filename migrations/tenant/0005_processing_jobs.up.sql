-- The queue of one tenant (nexarch.jobs). A row is written in the transaction of the document it belongs to, so
-- no job is ever without its document, nor a document without its job.
CREATE TABLE processing_jobs (
    id              uuid        PRIMARY KEY DEFAULT uuidv7(),
    job_type        text        NOT NULL CHECK (job_type ~ '^[a-z][a-z0-9_]{0,62}$'),
    payload         jsonb       NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    idempotency_key text        CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    status          text        NOT NULL DEFAULT 'pending'
                                CHECK (status IN ('pending', 'processing', 'succeeded', 'failed', 'dead_letter')),
    priority        smallint    NOT NULL DEFAULT 0,   -- the higher number runs first
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),   -- counted at the claim
    max_attempts    integer     NOT NULL DEFAULT 5 CHECK (max_attempts >= 1),
    available_at    timestamptz NOT NULL DEFAULT now(),
    locked_at       timestamptz,                      -- the claim, or the last heartbeat since
    locked_by       text,
    lease           bigint      NOT NULL DEFAULT 0,   -- every claim raises it, nothing ever lowers it: the fence
    last_error      jsonb,                            -- {code, detail, traceback, attempt, worker, at}
    progress        smallint    NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100),
    traceparent     text        CHECK (length(traceparent) <= 255),
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    CONSTRAINT processing_jobs_locked CHECK ((status = 'processing') = (locked_at IS NOT NULL AND locked_by IS NOT NULL)),
    CONSTRAINT processing_jobs_finished CHECK ((status IN ('succeeded', 'failed', 'dead_letter')) = (finished_at IS NOT NULL))
)
-- Room on each page for the next version of a row: a heartbeat then touches no index. Vacuum comes early and does
-- not pause, because dead entries in front of the due index are what makes a queue slow.
WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 5000
);

CREATE UNIQUE INDEX processing_jobs_idempotency_key ON processing_jobs (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- In the order of the claim. PostgreSQL 18 skips from priority to priority past what is not due yet.
CREATE INDEX processing_jobs_due ON processing_jobs (job_type, priority DESC, available_at, id)
    WHERE status = 'pending';
-- A handful of rows. Not on locked_at: every heartbeat would write the index.
CREATE INDEX processing_jobs_running ON processing_jobs (job_type)
    WHERE status = 'processing';
CREATE INDEX processing_jobs_dead ON processing_jobs (job_type, finished_at)
    WHERE status = 'dead_letter';
