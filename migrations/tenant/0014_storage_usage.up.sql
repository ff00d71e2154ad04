-- How much the tenant stores, for its quota: one row, kept by the transactions that change what is stored. Whoever stores
-- holds the row until the end of their transaction, so of two at once the second sees what the first has taken.
CREATE TABLE storage_usage (
    one        boolean PRIMARY KEY DEFAULT true,
    used_bytes bigint NOT NULL,

    CONSTRAINT storage_usage_one_row CHECK (one)
);
COMMENT ON COLUMN storage_usage.used_bytes IS 'The sum of stored_objects.size_bytes.';

INSERT INTO storage_usage (used_bytes) SELECT coalesce(sum(size_bytes), 0) FROM stored_objects;

CREATE FUNCTION count_stored_bytes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE storage_usage SET used_bytes = used_bytes + (SELECT coalesce(sum(size_bytes), 0) FROM changed);
    ELSE
        UPDATE storage_usage SET used_bytes = used_bytes - (SELECT coalesce(sum(size_bytes), 0) FROM changed);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_objects_added AFTER INSERT ON stored_objects
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_stored_bytes();
CREATE TRIGGER stored_objects_removed AFTER DELETE ON stored_objects
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_stored_bytes();
