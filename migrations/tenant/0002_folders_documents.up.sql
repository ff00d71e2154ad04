-- Folders, documents and their revisions, and how text is searched.

CREATE TABLE folders (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    parent_id  uuid,
    name       text NOT NULL,
    created_by uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,

    CONSTRAINT folders_parent_fkey FOREIGN KEY (parent_id) REFERENCES folders (id),
    CONSTRAINT folders_created_by_fkey FOREIGN KEY (created_by) REFERENCES users (id),
    CONSTRAINT folders_name_form CHECK (is_name(name) AND name NOT IN ('.', '..')),
    CONSTRAINT folders_not_own_parent CHECK (parent_id <> id)
);
COMMENT ON COLUMN folders.parent_id IS 'NULL: a folder at the top.';

CREATE UNIQUE INDEX folders_name_in_parent ON folders (parent_id, name) NULLS NOT DISTINCT
    WHERE deleted_at IS NULL;
CREATE INDEX folders_by_parent ON folders (parent_id);

CREATE FUNCTION keep_folders_a_tree() RETURNS trigger
    LANGUAGE plpgsql AS $$
DECLARE
    max_depth CONSTANT integer := 32;
    above integer := 0;   -- folders from the new parent up to the top
    below integer := 0;   -- levels of folders below this one, which move along
    cycle boolean;
BEGIN
    IF NEW.parent_id IS NULL AND TG_OP = 'INSERT' THEN
        RETURN NEW;
    END IF;
    -- Two moves at once could each be fine and together make a ring.
    PERFORM pg_advisory_xact_lock(hashtextextended('nexarch folders', 0));
    WITH RECURSIVE up (id, parent_id, depth) AS (
        SELECT id, parent_id, 1 FROM folders WHERE id = NEW.parent_id
        UNION ALL
        SELECT f.id, f.parent_id, up.depth + 1 FROM folders f JOIN up ON f.id = up.parent_id
         WHERE up.id <> NEW.id
    )
    SELECT coalesce(max(depth), 0), coalesce(bool_or(id = NEW.id), false) INTO above, cycle FROM up;
    IF cycle AND NEW.parent_id <> NEW.id THEN
        RAISE EXCEPTION 'a folder cannot be moved into a folder below it'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'folders_no_cycle', TABLE = 'folders';
    END IF;
    IF TG_OP = 'UPDATE' AND NOT cycle THEN
        WITH RECURSIVE down (id, depth) AS (
            SELECT id, 1 FROM folders WHERE parent_id = NEW.id
            UNION ALL
            SELECT f.id, down.depth + 1 FROM folders f JOIN down ON f.parent_id = down.id
        )
        SELECT coalesce(max(depth), 0) INTO below FROM down;
    END IF;
    IF above + 1 + below > max_depth THEN
        RAISE EXCEPTION 'folders stand at most % deep', max_depth
            USING ERRCODE = 'check_violation', CONSTRAINT = 'folders_depth', TABLE = 'folders';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER folders_tree BEFORE INSERT OR UPDATE OF parent_id ON folders
    FOR EACH ROW EXECUTE FUNCTION keep_folders_a_tree();

-- Search. The German stemmer of PostgreSQL 18 takes ae, oe, ue for ä, ö, ü and then drops the dots, so with
-- unaccent before it "Müller", "Mueller" and "MULLER" are one lexeme. The simple configuration keeps every word
-- as it is (without accents): stop words, names and other languages are found too. A vector holds both.
CREATE TEXT SEARCH CONFIGURATION nexarch_german (COPY = pg_catalog.german);
ALTER TEXT SEARCH CONFIGURATION nexarch_german
    ALTER MAPPING FOR asciiword, asciihword, hword_asciipart, word, hword, hword_part
    WITH unaccent, german_stem;
ALTER TEXT SEARCH CONFIGURATION nexarch_german
    ALTER MAPPING FOR numword, numhword, hword_numpart WITH unaccent, simple;
CREATE TEXT SEARCH CONFIGURATION nexarch_simple (COPY = pg_catalog.simple);
ALTER TEXT SEARCH CONFIGURATION nexarch_simple
    ALTER MAPPING FOR asciiword, asciihword, hword_asciipart, word, hword, hword_part, numword, numhword, hword_numpart
    WITH unaccent, simple;

CREATE FUNCTION search_vector(content text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_tsvector('nexarch_german', normalize(content, NFKC))
        || to_tsvector('nexarch_simple', normalize(content, NFKC));
COMMENT ON FUNCTION search_vector(text) IS
    'The words of a text for search_query. For texts of at most 24,000 characters: positions end at 16,383.';

CREATE FUNCTION search_name_vector(name text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN search_vector(name || ' ' || regexp_replace(name, '[^[:alnum:]\u0300-\u036f]+', ' ', 'g'));
COMMENT ON FUNCTION search_name_vector(text) IS
    'The words of a file name: "Rechnung_Müller-2024.pdf" is found whole and by each of its parts.';

CREATE AGGREGATE all_of(tsquery) (SFUNC = tsquery_and, STYPE = tsquery);
CREATE AGGREGATE any_of(tsquery) (SFUNC = tsquery_or, STYPE = tsquery);

-- websearch_to_tsquery would match one vector; the words of one document stand in several (its name, the parts
-- of its text), so a query is taken apart into terms that are looked for one by one (search_documents).
CREATE FUNCTION search_terms(query text) RETURNS TABLE (branch bigint, term tsquery, excluded boolean)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    WITH items AS (
        SELECT position, match[1] = '-' AS excluded, coalesce(match[2], match[3]) AS words,
               lower(match[3]) = 'or' AND match[1] = '' AS is_or
          FROM regexp_matches(left(normalize(query, NFKC), 500), '(-?)(?:"([^"]*)"?|([^\s"]+))', 'g')
               WITH ORDINALITY AS found (match, position)
         LIMIT 32
    ), terms AS (
        SELECT count(*) FILTER (WHERE is_or) OVER (ORDER BY position) AS branch,
               phraseto_tsquery('nexarch_german', words) || phraseto_tsquery('nexarch_simple', words) AS term,
               excluded,
               is_or
          FROM items
    )
    SELECT terms.branch, terms.term, terms.excluded FROM terms WHERE is_or IS NOT TRUE AND numnode(terms.term) > 0;
END;
COMMENT ON FUNCTION search_terms(text) IS
    'What a person typed, as in web searches: words, "phrases", -without, or. A document matches when in one branch '
    'all terms are found and no excluded one. Takes any string: at most 500 characters and 32 terms of it count.';

CREATE FUNCTION search_query(query text) RETURNS tsquery
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(any_of(branch_query), '')
      FROM (SELECT all_of(CASE WHEN excluded THEN !!term ELSE term END) AS branch_query
              FROM search_terms(query)
             GROUP BY branch
            HAVING NOT bool_and(excluded)) AS branches;
END;
COMMENT ON FUNCTION search_query(text) IS 'The same for a single vector, say documents.search; never raises.';

CREATE TABLE documents (
    id                  uuid PRIMARY KEY DEFAULT uuidv7(),
    folder_id           uuid,
    name                text NOT NULL,
    current_revision_id uuid,
    version             integer NOT NULL DEFAULT 1,
    created_by          uuid,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,
    search              tsvector NOT NULL GENERATED ALWAYS AS (search_name_vector(name)) STORED,

    CONSTRAINT documents_folder_fkey FOREIGN KEY (folder_id) REFERENCES folders (id),
    CONSTRAINT documents_created_by_fkey FOREIGN KEY (created_by) REFERENCES users (id),
    CONSTRAINT documents_name_form CHECK (is_name(name) AND name NOT IN ('.', '..')),
    CONSTRAINT documents_version_positive CHECK (version > 0)
);
COMMENT ON COLUMN documents.folder_id IS 'NULL: not in any folder.';
COMMENT ON COLUMN documents.current_revision_id IS 'NULL: a record without a file, until one is uploaded.';
COMMENT ON COLUMN documents.version IS 'Raised by every change of the document; its ETag.';
COMMENT ON COLUMN documents.deleted_at IS 'In the trash since then; NULL: not deleted.';

-- Keyset pages, newest first: id is a UUIDv7, so its order is that of creation.
CREATE INDEX documents_live ON documents (id) WHERE deleted_at IS NULL;
CREATE INDEX documents_live_in_folder ON documents (folder_id, id) WHERE deleted_at IS NULL;
CREATE INDEX documents_deleted_at ON documents (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX documents_folder ON documents (folder_id);
CREATE INDEX documents_search ON documents USING gin (search);

CREATE TABLE file_revisions (
    id                      uuid PRIMARY KEY DEFAULT uuidv7(),
    document_id             uuid NOT NULL,
    number                  integer NOT NULL,
    storage_key             text NOT NULL,
    checksum_sha256         bytea NOT NULL,
    size_bytes              bigint NOT NULL,
    mime_type               text NOT NULL,
    wrapped_dek             bytea NOT NULL,
    kek_version             integer NOT NULL,
    processing_state        text NOT NULL DEFAULT 'queued',
    processing_error_code   text,
    processing_error_detail text,
    page_count              integer,
    created_by              uuid,
    created_at              timestamptz NOT NULL DEFAULT now(),
    processed_at            timestamptz,

    CONSTRAINT file_revisions_document_fkey FOREIGN KEY (document_id) REFERENCES documents (id),
    CONSTRAINT file_revisions_created_by_fkey FOREIGN KEY (created_by) REFERENCES users (id),
    CONSTRAINT file_revisions_number_key UNIQUE (document_id, number),
    CONSTRAINT file_revisions_of_document_key UNIQUE (id, document_id),
    CONSTRAINT file_revisions_storage_key_key UNIQUE (storage_key),
    CONSTRAINT file_revisions_number_positive CHECK (number > 0),
    CONSTRAINT file_revisions_storage_key_form CHECK (
        storage_key ~ '^documents/[0-9a-f-]{36}/revisions/[0-9a-f-]{36}$'
    ),
    CONSTRAINT file_revisions_checksum_is_sha256 CHECK (octet_length(checksum_sha256) = 32),
    CONSTRAINT file_revisions_size_not_negative CHECK (size_bytes >= 0),
    CONSTRAINT file_revisions_mime_form CHECK (
        mime_type ~ '^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$'
    ),
    CONSTRAINT file_revisions_dek_wrapped CHECK (octet_length(wrapped_dek) = 60),
    CONSTRAINT file_revisions_kek_version_positive CHECK (kek_version > 0),
    CONSTRAINT file_revisions_state_known CHECK (
        processing_state IN ('queued', 'processing', 'processed', 'failed')
    ),
    CONSTRAINT file_revisions_failed_with_reason CHECK (
        (processing_state = 'failed') = (processing_error_code IS NOT NULL)
        AND (processing_error_detail IS NULL OR processing_error_code IS NOT NULL)
    ),
    CONSTRAINT file_revisions_error_code_form CHECK (processing_error_code ~ '^[a-z][a-z0-9-]{0,62}$'),
    CONSTRAINT file_revisions_page_count_not_negative CHECK (page_count >= 0)
);
COMMENT ON COLUMN file_revisions.checksum_sha256 IS 'Of the plaintext.';
COMMENT ON COLUMN file_revisions.size_bytes IS 'Of the plaintext.';

CREATE INDEX file_revisions_by_checksum ON file_revisions (checksum_sha256);
CREATE INDEX file_revisions_by_kek_version ON file_revisions (kek_version);
CREATE INDEX file_revisions_unprocessed ON file_revisions (processing_state) WHERE processing_state <> 'processed';

-- Checked at commit, so that document and first revision may come in any order in one transaction.
ALTER TABLE documents ADD CONSTRAINT documents_current_revision_fkey
    FOREIGN KEY (current_revision_id, id) REFERENCES file_revisions (id, document_id)
    DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX documents_current_revision ON documents (current_revision_id);
