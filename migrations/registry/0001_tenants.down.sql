DROP TABLE tenant_keys;
DROP TABLE tenants;
DROP FUNCTION is_name(text);
