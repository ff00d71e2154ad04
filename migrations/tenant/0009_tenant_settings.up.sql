-- What the tenant's admins decide about uploads and the trash: one row.
CREATE TABLE tenant_settings (
    one              boolean PRIMARY KEY DEFAULT true,
    version          integer NOT NULL DEFAULT 1,
    duplicates       text NOT NULL DEFAULT 'allow',
    allowed_types    text[],
    max_upload_bytes bigint,
    quota_bytes      bigint,
    trash_days       integer NOT NULL DEFAULT 30,
    updated_at       timestamptz NOT NULL DEFAULT now(),
    updated_by       uuid,

    CONSTRAINT tenant_settings_updated_by_fkey FOREIGN KEY (updated_by) REFERENCES users (id),
    CONSTRAINT tenant_settings_one_row CHECK (one),
    CONSTRAINT tenant_settings_version_positive CHECK (version > 0),
    CONSTRAINT tenant_settings_duplicates_known CHECK (duplicates IN ('reject', 'link', 'allow')),
    CONSTRAINT tenant_settings_types_form CHECK (
        cardinality(allowed_types) BETWEEN 1 AND 200
        AND array_position(allowed_types, NULL) IS NULL
        AND array_to_string(allowed_types, ',') ~ (
            '^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/([a-z0-9][a-z0-9!#$&^_.+-]{0,126}|\*)'
            '(,[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/([a-z0-9][a-z0-9!#$&^_.+-]{0,126}|\*))*$'
        )
    ),
    CONSTRAINT tenant_settings_max_upload_positive CHECK (max_upload_bytes > 0),
    CONSTRAINT tenant_settings_quota_not_negative CHECK (quota_bytes >= 0),
    CONSTRAINT tenant_settings_trash_days_range CHECK (trash_days BETWEEN 0 AND 3650)
);
COMMENT ON COLUMN tenant_settings.version IS 'Raised by every change; the ETag.';
COMMENT ON COLUMN tenant_settings.duplicates IS
    'A file whose bytes a document has already: reject it, link its document to the bytes that are stored, or allow it.';
COMMENT ON COLUMN tenant_settings.allowed_types IS
    'Media types, or type/* for all of one; NULL: what the service allows.';
COMMENT ON COLUMN tenant_settings.max_upload_bytes IS 'Of one file; NULL: the limit of the service, which holds in any case.';
COMMENT ON COLUMN tenant_settings.quota_bytes IS 'Of plaintext that all documents may have together; NULL: no limit.';
COMMENT ON COLUMN tenant_settings.trash_days IS 'After so many days in the trash a document is removed for good.';

INSERT INTO tenant_settings DEFAULT VALUES;
