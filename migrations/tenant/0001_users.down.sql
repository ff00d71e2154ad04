DROP FUNCTION grant_tenant_role(name);
DROP TABLE users;
DROP FUNCTION is_name(text);
DROP EXTENSION unaccent;
