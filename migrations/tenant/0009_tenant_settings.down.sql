DROP TABLE tenant_settings;
