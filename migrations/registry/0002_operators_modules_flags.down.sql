DROP TABLE module_credentials;
DROP FUNCTION refuse_third_credential();
DROP TABLE modules;
DROP FUNCTION refuse_module_prefix();
DROP FUNCTION are_flag_keys(text[]);
DROP TABLE flag_tenants;
DROP TABLE feature_flags;
DROP TABLE operators;
