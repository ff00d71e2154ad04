-- What the protocol tus 1.0 needs of an upload session: a length that is told later, metadata that is given back as it
-- came, and files that are put together from parts.
ALTER TABLE upload_sessions
    ADD COLUMN length_deferred boolean NOT NULL DEFAULT false,
    ADD COLUMN tus_metadata text,
    ADD COLUMN concat_kind text,
    ADD COLUMN concat_parts uuid[],
    ADD COLUMN concat_into uuid,
    ADD CONSTRAINT upload_sessions_complete_has_length CHECK (state <> 'complete' OR NOT length_deferred),
    ADD CONSTRAINT upload_sessions_tus_metadata_form CHECK (
        char_length(tus_metadata) <= 8192
        AND tus_metadata ~ '^[!-+\x2d-~]+( [A-Za-z0-9+/]+={0,2})?(,[!-+\x2d-~]+( [A-Za-z0-9+/]+={0,2})?)*$'
    ),
    ADD CONSTRAINT upload_sessions_concat_kind_known CHECK (concat_kind IN ('partial', 'final')),
    ADD CONSTRAINT upload_sessions_final_has_parts CHECK (
        (concat_kind IS NOT DISTINCT FROM 'final') = (concat_parts IS NOT NULL)
        AND cardinality(concat_parts) BETWEEN 1 AND 1000
    ),
    ADD CONSTRAINT upload_sessions_partial_stays_open CHECK (NOT (concat_kind = 'partial' AND state = 'complete')),
    ADD CONSTRAINT upload_sessions_concat_into_of_partial CHECK (
        concat_into IS NULL OR concat_kind IS NOT DISTINCT FROM 'partial'
    ),
    ADD CONSTRAINT upload_sessions_concat_into_fkey FOREIGN KEY (concat_into) REFERENCES upload_sessions (id)
        ON DELETE CASCADE;

CREATE INDEX upload_sessions_by_concat_into ON upload_sessions (concat_into) WHERE concat_into IS NOT NULL;

COMMENT ON COLUMN upload_sessions.size_bytes IS
    'What is to come; while length_deferred, the most that may come.';
COMMENT ON COLUMN upload_sessions.tus_metadata IS
    'The header Upload-Metadata, put together anew from what was read out of it.';
COMMENT ON COLUMN upload_sessions.concat_kind IS
    'partial: bytes that become a file only as a part of a final upload; final: such a file.';
COMMENT ON COLUMN upload_sessions.concat_parts IS 'Of a final upload: the partial ones it is made of, in their order.';
COMMENT ON COLUMN upload_sessions.concat_into IS
    'Of a partial upload: the final one that has its bytes now. Its own are removed, its row answers until it expires.';
