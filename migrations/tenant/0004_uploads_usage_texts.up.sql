-- Upload sessions, the usage outbox, and the extracted text that is searched.

CREATE TABLE upload_sessions (
    id                    uuid PRIMARY KEY DEFAULT uuidv7(),
    user_id               uuid NOT NULL,
    document_id           uuid,
    folder_id             uuid,
    filename              text NOT NULL,
    mime_type             text NOT NULL,
    size_bytes            bigint NOT NULL,
    sha256                bytea,
    received              int8multirange NOT NULL DEFAULT '{}',
    state                 text NOT NULL DEFAULT 'open',
    completed_document_id uuid,
    completed_revision_id uuid,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    expires_at            timestamptz NOT NULL,

    CONSTRAINT upload_sessions_user_fkey FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT upload_sessions_document_fkey FOREIGN KEY (document_id) REFERENCES documents (id) ON DELETE CASCADE,
    CONSTRAINT upload_sessions_folder_fkey FOREIGN KEY (folder_id) REFERENCES folders (id),
    CONSTRAINT upload_sessions_completed_fkey FOREIGN KEY (completed_revision_id, completed_document_id)
        REFERENCES file_revisions (id, document_id) ON DELETE CASCADE,
    CONSTRAINT upload_sessions_filename_form CHECK (is_name(filename) AND filename NOT IN ('.', '..')),
    CONSTRAINT upload_sessions_mime_form CHECK (
        mime_type ~ '^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$'
    ),
    CONSTRAINT upload_sessions_size_not_negative CHECK (size_bytes >= 0),
    CONSTRAINT upload_sessions_sha256_length CHECK (octet_length(sha256) = 32),
    CONSTRAINT upload_sessions_received_within_size CHECK (
        received <@ int8multirange(int8range(0, greatest(size_bytes, 0)))
    ),
    CONSTRAINT upload_sessions_state_known CHECK (state IN ('open', 'complete', 'aborted')),
    CONSTRAINT upload_sessions_complete_is_whole CHECK (
        state <> 'complete' OR received = int8multirange(int8range(0, size_bytes))
    ),
    CONSTRAINT upload_sessions_complete_has_revision CHECK (
        (state = 'complete') = (completed_revision_id IS NOT NULL)
        AND (completed_revision_id IS NULL) = (completed_document_id IS NULL)
    ),
    CONSTRAINT upload_sessions_one_target CHECK (document_id IS NULL OR folder_id IS NULL),
    CONSTRAINT upload_sessions_expire_after_creation CHECK (expires_at > created_at)
);
COMMENT ON COLUMN upload_sessions.document_id IS 'The upload becomes the next revision of this document; NULL: a new one.';
COMMENT ON COLUMN upload_sessions.sha256 IS 'What the client says the file''s digest is; NULL: it did not say.';
COMMENT ON COLUMN upload_sessions.received IS 'The byte ranges that lie on disk; a hole shows as a gap.';

CREATE INDEX upload_sessions_open_expiry ON upload_sessions (expires_at) WHERE state = 'open';
CREATE INDEX upload_sessions_by_user ON upload_sessions (user_id, id);
CREATE INDEX upload_sessions_by_folder ON upload_sessions (folder_id) WHERE folder_id IS NOT NULL;
CREATE INDEX upload_sessions_by_document ON upload_sessions (document_id) WHERE document_id IS NOT NULL;
CREATE INDEX upload_sessions_by_completed ON upload_sessions (completed_revision_id)
    WHERE completed_revision_id IS NOT NULL;

CREATE TABLE usage_outbox (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    metric       text NOT NULL,
    delta        bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,

    CONSTRAINT usage_outbox_metric_form CHECK (metric ~ '^[a-z][a-z0-9_]{0,62}$')
);
COMMENT ON TABLE usage_outbox IS 'Changes of usage, written with the change itself and then told to core-api once.';
CREATE INDEX usage_outbox_undelivered ON usage_outbox (id) WHERE delivered_at IS NULL;

-- A text is kept in parts of at most 24,000 characters: a tsvector holds 1 MiB and positions up to 16,383,
-- and a snippet is made from one part, whatever the length of the text.
CREATE TABLE document_texts (
    revision_id uuid NOT NULL,
    part        integer NOT NULL,
    content     text NOT NULL,
    search      tsvector NOT NULL,

    CONSTRAINT document_texts_pkey PRIMARY KEY (revision_id, part),
    CONSTRAINT document_texts_revision_fkey FOREIGN KEY (revision_id)
        REFERENCES file_revisions (id) ON DELETE CASCADE,
    CONSTRAINT document_texts_part_not_negative CHECK (part >= 0),
    CONSTRAINT document_texts_content_length CHECK (char_length(content) <= 24000)
);
COMMENT ON TABLE document_texts IS 'Written by store_text only. The parts of a text, joined, are the text.';
CREATE INDEX document_texts_search ON document_texts USING gin (search);

CREATE FUNCTION store_text(revision uuid, content text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = public, pg_temp AS $$
DECLARE
    part_length  CONSTANT integer := 24000;
    overlap      CONSTANT integer := 200;     -- a vector looks so far into the next part: phrases cross the cut
    block_length CONSTANT integer := 480000;  -- a cut copies what is left of its block, not of the whole text
    length  integer := char_length(content);
    taken   integer := 0;                     -- characters of content that are in rest or in a part
    rest    text := '';
    head    text;
    cut     integer;
    parts   integer := 0;
BEGIN
    DELETE FROM document_texts t WHERE t.revision_id = revision;
    LOOP
        IF taken < length AND char_length(rest) <= part_length + overlap THEN
            rest := rest || substr(content, taken + 1, block_length);
            taken := least(taken + block_length, length);
        END IF;
        EXIT WHEN rest = '';
        head := left(rest, part_length);
        IF char_length(rest) > part_length THEN
            -- after the last white space, unless one word fills the second half of the part
            cut := position(' ' IN reverse(regexp_replace(right(head, part_length / 2), '\s', ' ', 'g')));
            head := left(head, part_length - greatest(cut - 1, 0));
        END IF;
        rest := substr(rest, char_length(head) + 1);
        INSERT INTO document_texts (revision_id, part, content, search)
        VALUES (revision, parts, head, search_vector(head || left(rest, overlap)));
        parts := parts + 1;
    END LOOP;
    RETURN parts;
END $$;
COMMENT ON FUNCTION store_text(uuid, text) IS
    'Replace the searchable text of a revision; returns the number of its parts. Done twice, it is the same.';

CREATE FUNCTION search_documents(query text)
    RETURNS TABLE (document_id uuid, rank real, revision_id uuid, part integer)
    LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    WITH terms AS MATERIALIZED (
        SELECT row_number() OVER () AS n, branch, term, excluded FROM search_terms(query)
    ), branches AS (
        SELECT branch, count(*) FILTER (WHERE NOT excluded) AS wanted FROM terms GROUP BY branch
    ), hits AS (
        SELECT n, branch, excluded, d.id AS document_id, NULL::integer AS part,
               2 * ts_rank(d.search, term) AS rank  -- a word in the name says more than one in the text
          FROM terms JOIN documents d ON d.search @@ term
         WHERE d.deleted_at IS NULL
         UNION ALL
        SELECT n, branch, excluded, d.id, t.part, ts_rank(t.search, term)
          FROM terms JOIN document_texts t ON t.search @@ term
          JOIN documents d ON d.current_revision_id = t.revision_id
         WHERE d.deleted_at IS NULL
    ), found_terms AS (
        SELECT document_id, branch, n, excluded, max(rank) AS rank
          FROM hits
         GROUP BY document_id, branch, n, excluded
    ), found_branches AS (
        SELECT document_id, sum(rank) AS rank
          FROM found_terms JOIN branches USING (branch)
         GROUP BY document_id, branch, wanted
        HAVING bool_and(NOT excluded) AND count(*) = wanted
    ), found AS (
        SELECT document_id, max(rank) AS rank FROM found_branches GROUP BY document_id
    ), best_parts AS (
        SELECT DISTINCT ON (document_id) document_id, part
          FROM hits
         WHERE part IS NOT NULL AND NOT excluded
         GROUP BY document_id, part
         ORDER BY document_id, sum(rank) DESC, part
    )
    SELECT found.document_id, found.rank, d.current_revision_id, best_parts.part
      FROM found
      JOIN documents d ON d.id = found.document_id
      LEFT JOIN best_parts ON best_parts.document_id = found.document_id;
END;
COMMENT ON FUNCTION search_documents(text) IS
    'The documents (not deleted, present revision) whose name and text together match; part is the one of '
    'document_texts with most of the words, NULL where only the name matches. Takes any string.';

CREATE FUNCTION search_snippet(content text, query text, start_mark text, end_mark text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT ts_headline(
               'nexarch_german', content, coalesce(any_of(term), ''),
               format('StartSel=%s, StopSel=%s, MaxFragments=2, MaxWords=20, MinWords=8, FragmentDelimiter=" … "',
                      quote_ident(start_mark), quote_ident(end_mark))
           )
      FROM search_terms(query)
     WHERE NOT excluded;
END;
COMMENT ON FUNCTION search_snippet(text, text, text, text) IS
    'The words around what was found, marked; content is a part of document_texts, not escaped for HTML.';
