ALTER TABLE tenants DROP COLUMN creation_key;
