ALTER TABLE storage_usage DROP COLUMN forgotten_bytes;
DROP TABLE store_findings;
DROP TABLE store_checks;
DROP INDEX stored_objects_damaged;
DROP INDEX stored_objects_by_check;
DROP INDEX stored_objects_in_order;
ALTER TABLE stored_objects
    DROP CONSTRAINT stored_objects_damage_was_checked,
    DROP CONSTRAINT stored_objects_damage_known,
    DROP COLUMN damage,
    DROP COLUMN checked_at;
