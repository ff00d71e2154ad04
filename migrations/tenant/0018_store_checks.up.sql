-- What the periodic check of the object store has found, and where a check that is under way goes on.
ALTER TABLE stored_objects
    ADD COLUMN checked_at timestamptz,
    ADD COLUMN damage text,
    ADD CONSTRAINT stored_objects_damage_known CHECK (damage IN ('missing', 'size', 'content')),
    ADD CONSTRAINT stored_objects_damage_was_checked CHECK (damage IS NULL OR checked_at IS NOT NULL);
COMMENT ON COLUMN stored_objects.checked_at IS 'When its bytes were last looked at; NULL: never.';
COMMENT ON COLUMN stored_objects.damage IS
    'What that found wrong: no object, another size, or bytes that are not the file''s. NULL: nothing.';

-- The order of a store's listing is that of bytes, whatever the database's own is.
CREATE INDEX stored_objects_in_order ON stored_objects (storage_key COLLATE "C");
CREATE INDEX stored_objects_by_check ON stored_objects (checked_at NULLS FIRST, storage_key);
CREATE INDEX stored_objects_damaged ON stored_objects (storage_key) WHERE damage IS NOT NULL;

CREATE TABLE store_checks (
    id               uuid PRIMARY KEY DEFAULT uuidv7(),
    scope            text NOT NULL,
    phase            text NOT NULL DEFAULT 'objects',
    position         text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL DEFAULT now(),
    finished_at      timestamptz,
    objects          bigint NOT NULL DEFAULT 0,
    contents         bigint NOT NULL DEFAULT 0,
    bytes            bigint NOT NULL DEFAULT 0,
    orphans_removed  bigint NOT NULL DEFAULT 0,
    orphans_young    bigint NOT NULL DEFAULT 0,
    leftovers        bigint NOT NULL DEFAULT 0,
    missing          bigint NOT NULL DEFAULT 0,
    damaged          bigint NOT NULL DEFAULT 0,
    unreadable_keys  bigint NOT NULL DEFAULT 0,

    CONSTRAINT store_checks_scope_known CHECK (scope IN ('sample', 'all')),
    CONSTRAINT store_checks_phase_known CHECK (phase IN ('objects', 'contents', 'finished')),
    CONSTRAINT store_checks_finished CHECK ((phase = 'finished') = (finished_at IS NOT NULL)),
    CONSTRAINT store_checks_counts_not_negative CHECK (
        least(objects, contents, bytes, orphans_removed, orphans_young, leftovers, missing, damaged, unreadable_keys)
        >= 0
    )
);
COMMENT ON COLUMN store_checks.phase IS
    'objects: the store''s listing beside the rows; contents: objects are opened, a sample or all.';
COMMENT ON COLUMN store_checks.position IS 'The storage key that was last looked at in this phase.';
COMMENT ON COLUMN store_checks.bytes IS 'Of plaintext, read and compared.';
COMMENT ON COLUMN store_checks.unreadable_keys IS 'Rows whose wrapped key does not open; their objects were not read.';

-- Who asks for a check that is not finished gets that one.
CREATE UNIQUE INDEX store_checks_one_unfinished ON store_checks (scope) WHERE finished_at IS NULL;

CREATE TABLE store_findings (
    check_id    uuid NOT NULL,
    storage_key text NOT NULL,
    kind        text NOT NULL,
    found_at    timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT store_findings_pkey PRIMARY KEY (check_id, storage_key),
    CONSTRAINT store_findings_check_fkey FOREIGN KEY (check_id) REFERENCES store_checks (id) ON DELETE CASCADE,
    CONSTRAINT store_findings_kind_known CHECK (kind IN ('orphan', 'missing', 'size', 'content', 'key'))
);
COMMENT ON TABLE store_findings IS 'Of each check the first thousand; the numbers in store_checks count all.';

-- Rows of the outbox are removed some time after their delivery; their sum stays, so that what core-api was told can
-- still be compared with what is stored.
ALTER TABLE storage_usage ADD COLUMN forgotten_bytes bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN storage_usage.forgotten_bytes IS 'The sum of storage_bytes in rows of usage_outbox that were removed.';
