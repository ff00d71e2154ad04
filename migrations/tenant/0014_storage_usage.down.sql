DROP TRIGGER stored_objects_removed ON stored_objects;
DROP TRIGGER stored_objects_added ON stored_objects;
DROP FUNCTION count_stored_bytes();
DROP TABLE storage_usage;
