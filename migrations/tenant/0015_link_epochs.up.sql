ALTER TABLE documents
    ADD COLUMN link_epoch integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT documents_link_epoch_not_negative CHECK (link_epoch >= 0);
COMMENT ON COLUMN documents.link_epoch IS
    'Signed links carry the one they were made in; raising it revokes all links to the document.';
