ALTER TABLE modules DROP COLUMN scopes;
DROP FUNCTION are_scopes(text[]);
